// The list of everything that can be covered: filters and search.
const Explorer = (() => {
  const CHUNK = 60;

  // Which items match: `q` is looked for in the item and in the ids of its tests; its words, if nothing has it whole.
  function matching(table, filter) {
    const words = filter.q.toLowerCase().split(/\s+/).filter(Boolean);
    const text = filter.q.trim().toLowerCase();
    const named = text.length < 3 ? [] : Report.tests.flatMap((id, i) => (id.toLowerCase().includes(text) ? [i] : []));
    const tests = new Set(named);
    const phrase = table.all.some((item) => haystack(item).includes(text));
    const found = (item) =>
      (phrase ? [text] : words).every((word) => haystack(item).includes(word)) || (tests.size > 0 && Report.testsOf(item.tests).some((test) => tests.has(test)));
    return (item) =>
      (!filter.measure || item.measure === filter.measure) &&
      (!filter.rule || item.ruleNames.includes(filter.rule)) &&
      (!words.length || found(item));
  }

  function haystack(item) {
    item.text ??= [item.label, ...item.ruleNames, item.decision, item.grade, item.waiver,
      item.witness.length ? factsText(item.table, item.witness) : ""].join("\n").toLowerCase();
    return item.text;
  }

  function options(name, legend, choices, chosen, changed) {
    return h("fieldset", { class: "chips" }, h("legend", {}, legend), choices.map(([value, text, title]) =>
      h("label", { title }, h("input", { type: "radio", name, value, checked: value === chosen, onchange: () => changed(value) }),
        h("span", {}, text, h("span", { class: "num", "data-count": value })))));
  }

  function render(table, place, changed) {
    const filter = { measure: "", state: "", rule: "", q: "" };
    const list = h("div", { class: "items" });
    const status = h("p", { class: "status", role: "status" });
    const more = h("button", { type: "button", class: "button more", onclick: () => grow() });
    const search = h("input", { type: "search", id: `search-${table.number}`, placeholder: "predicate, rule, kernel, test id, M=…",
      autocomplete: "off", spellcheck: "false", oninput: () => set({ q: search.value }, true) });
    search.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.preventDefault();
        if (search.value) set({ q: "" }, true);
        else search.blur();
      } else if (event.key === "Enter") {
        event.preventDefault();
        list.querySelector("summary")?.focus();
      }
    });
    const rule = h("select", { id: `rule-of-${table.number}`, onchange: () => set({ rule: rule.value }, true) },
      h("option", { value: "" }, "any rule"), table.rules.map((each) => h("option", { value: each.name }, each.name)));
    const measures = options(`measure-${table.number}`, "Measure",
      [["", "all"], ...Object.entries(MEASURES).map(([name, [, text, title]]) => [name, text, title])], "",
      (value) => set({ measure: value }, true));
    const states = options(`state-${table.number}`, "State", [["", "any"], ...STATES.map((name) => [name, name])], "",
      (value) => set({ state: value }, true));
    for (const span of states.querySelectorAll("label > span")) {
      const state = span.lastElementChild.dataset.count;
      if (state) {
        span.classList.add("state", `s-${state}`);
        span.prepend(icon(state));
      }
    }
    let found = [];

    function grow(until = list.childElementCount + CHUNK) {
      const had = list.childElementCount;
      list.append(...found.slice(had, until).map(Item.row));
      const left = found.length - list.childElementCount;
      more.hidden = left <= 0;
      more.textContent = `Show ${count(Math.min(left, CHUNK))} more of ${count(left)}`;
    }

    function counts(box, name, matches) {
      for (const span of box.querySelectorAll("[data-count]")) {
        const number = matches.filter((item) => !span.dataset.count || item[name] === span.dataset.count).length;
        span.textContent = count(number);
        span.closest("label").classList.toggle("nothing", number === 0);
      }
    }

    function refresh() {
      const inAll = table.all.filter(matching(table, { ...filter, measure: "" }));
      const here = inAll.filter((item) => !filter.measure || item.measure === filter.measure);
      counts(measures, "measure", inAll.filter((item) => !filter.state || item.state === filter.state));
      counts(states, "state", here);
      found = here.filter((item) => !filter.state || item.state === filter.state);
      found.sort((a, b) => STATES.indexOf(a.state) - STATES.indexOf(b.state));
      list.replaceChildren();
      grow(CHUNK);
      const all = table.all.length;
      status.textContent = found.length ? `${count(found.length)} of ${plural(all, "item")}` : `Nothing matches, of ${plural(all, "item")}.`;
    }

    function set(change, typed) {
      Object.assign(filter, change);
      if (search.value !== filter.q) search.value = filter.q;
      rule.value = filter.rule;
      for (const [box, value] of [[measures, filter.measure], [states, filter.state]])
        for (const input of box.querySelectorAll("input")) input.checked = input.value === value;
      refresh();
      if (typed) changed(table, filter);
    }

    function open(measure, label, n) {
      if (!Object.hasOwn(MEASURES, measure)) return;
      const item = table.items[measure].filter((each) => each.label === label)[n];
      if (!item) return;
      set({ measure, state: "", rule: "", q: "" }, false);
      grow(Math.max(CHUNK, found.indexOf(item) + 1));
      const box = document.getElementById(`item-${table.number}-${item.id}`);
      box.open = true;
      box.firstElementChild.focus({ preventScroll: true });
      box.scrollIntoView({ block: "center" });
    }

    place.replaceChildren(
      h("div", { class: "filters", role: "search" },
        h("div", { class: "search" }, h("label", { for: search.id }, "Search"), search, h("kbd", { title: "press / to search" }, "/")),
        measures, states, h("div", { class: "field" }, h("label", { for: rule.id }, "Rule"), rule)),
      status, list, more);
    refresh();
    return { set: (change) => set({ measure: "", state: "", rule: "", q: "", ...change }, false), open, focus: () => search.focus() };
  }

  return { render };
})();
