// The page: which table is shown, what the address says, theme and keys.
(() => {
  const parts = new Map();
  let active = null;

  const replace = (parameters) => history.replaceState(null, "", `#${new URLSearchParams(parameters)}`);

  function filtered(table, filter) {
    replace({ op: table.op, ...Object.fromEntries(Object.entries(filter).filter(([, value]) => value)) });
  }

  function tried(table, facts) {
    const text = new URLSearchParams([...facts].map(([name, value]) => [name, String(value)]));
    replace({ op: table.op, try: String(text) });
  }

  function show(table) {
    active = table;
    for (const other of Report.tables) document.getElementById(`table-${other.number}`).hidden = other !== table;
    for (const link of document.querySelectorAll(".tables a"))
      link.toggleAttribute("aria-current", link.dataset.table === String(table.number));
    if (parts.has(table)) return parts.get(table);
    const place = (name) => document.querySelector(`#table-${table.number}-${name} .live`);
    Flow.render(table, place("flow"));
    mismatches(table, place("mismatches"));
    parts.set(table, {
      chooser: Chooser.render(table, place("try"), tried),
      items: Explorer.render(table, place("items"), filtered),
    });
    return parts.get(table);
  }

  function mismatches(table, place) {
    if (!place) return;
    for (const [index, mismatch] of table.mismatches.entries()) {
      const tests = Report.testsOf(mismatch.tests).map((test) => h("li", {}, Report.tests[test]));
      place.children[index].append(factsChips(table, mismatch.facts), " ",
        h("a", { class: "button", href: tryLink(table, mismatch.facts) }, "Try it"),
        tests.length > 0 && h("details", {}, h("summary", {}, plural(tests.length, "test")), h("ol", { class: "tests mono" }, tests)));
    }
  }

  function route() {
    const parameters = new URLSearchParams(location.hash.slice(1));
    const op = parameters.get("op");
    const table = Report.tables.find((each) => each.op === op) ?? active ?? Report.tables[0];
    if (!table) return;
    const { chooser, items } = show(table);
    if (op === null) return;
    if (parameters.has("try")) {
      chooser.set(new URLSearchParams(parameters.get("try")));
      document.getElementById(`table-${table.number}-try`).scrollIntoView();
      chooser.focus();
    } else if (parameters.has("item")) {
      items.open(parameters.get("measure"), parameters.get("item"), Number(parameters.get("n") ?? 0));
    } else if (["measure", "state", "rule", "q"].some((name) => parameters.has(name))) {
      items.set(Object.fromEntries(["measure", "state", "rule", "q"].map((name) => [name, parameters.get(name) ?? ""])));
      document.getElementById(`table-${table.number}-items`).scrollIntoView();
    } else document.getElementById(`table-${table.number}`).scrollIntoView();
  }

  const THEMES = ["auto", "light", "dark"];
  const button = document.getElementById("theme");
  function theme(name) {
    document.documentElement.dataset.theme = name;
    button.querySelector("span").textContent = name;
    button.setAttribute("aria-label", `colour scheme: ${name}`);
    try {
      localStorage.setItem("dispatchcov-theme", name);
    } catch {
      // a page opened from a file may have no storage
    }
  }
  function remembered() {
    try {
      return localStorage.getItem("dispatchcov-theme");
    } catch {
      return null;
    }
  }

  document.documentElement.classList.add("scripted");
  theme(THEMES.includes(remembered()) ? remembered() : "auto");
  button.hidden = false;
  button.addEventListener("click", () => theme(THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (event.key !== "/" || typing || event.ctrlKey || event.metaKey || event.altKey || !active) return;
    event.preventDefault();
    parts.get(active).items.focus();
  });
  addEventListener("hashchange", route);
  route();
})();
