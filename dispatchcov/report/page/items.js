// One item of a list, and what is known of it once it is opened; the addresses of items and inputs.
function linkTo(item) {
  const { table, measure, label } = item;
  const same = table.items[measure].filter((each) => each.label === label);
  const place = { op: table.op, measure, item: label };
  if (same.length > 1) place.n = String(same.indexOf(item));
  return `#${new URLSearchParams(place)}`;
}

function tryLink(table, values) {
  const facts = new URLSearchParams([...Dispatch.factsOf(table, values)].map(([name, value]) => [name, String(value)]));
  return `#${new URLSearchParams({ op: table.op, try: String(facts) })}`;
}

function evidence(item) {
  return h("span", { class: "evidence" }, Report.evidence.map((name, index) => {
    const has = item.evidence.includes(index);
    const needed = item.needs.includes(index);
    return h("span", { class: `proof ${has ? "has" : "lacks"}`, title: needed ? "a hit needs it" : null },
      icon(has ? "true" : "none"), h("span", { class: has ? "" : "quiet" }, has ? name : `not ${name}`), needed && "*");
  }));
}

const Item = (() => {
  function witnessLine(table, values, title) {
    return [h("dt", {}, title), h("dd", {}, factsChips(table, values), " ",
      h("a", { class: "button", href: tryLink(table, values) }, "Try it"))];
  }

  function reasons(item) {
    const { table } = item;
    const facts = Dispatch.factsOf(table, item.witness);
    const result = Dispatch.decide(table, facts);
    if (!result.fallbacks.length) return null;
    return [h("dt", {}, "Fallback reasons"), h("dd", {}, h("ul", { class: "reasons" }, result.fallbacks.map((fallback) =>
      h("li", {}, h("strong", {}, table.rules[fallback.rule].name), " not selected: ", fallback.failed.map((index, i) =>
        [i > 0 && ", ", h("code", {}, table.predicates[index].text), ` is ${result.outcomes[index]}`]),
      fallback.sole !== null && tag("sole reason")))))];
  }

  function testList(item) {
    const tests = Report.testsOf(item.tests);
    if (!tests.length) return null;
    const list = h("ol", { class: "tests mono" });
    const more = h("button", { type: "button", class: "button", onclick: () => add(tests.length) });
    const add = (limit) => {
      const had = list.childElementCount;
      list.append(...tests.slice(had, limit).map((test) => h("li", {}, Report.tests[test])));
      more.hidden = list.childElementCount === tests.length;
      more.textContent = `Show all ${plural(tests.length, "test")}`;
      if (had && list.children[had]) {
        list.children[had].tabIndex = -1;
        list.children[had].focus();
      }
    };
    add(12);
    return [h("dt", {}, plural(tests.length, "test")), h("dd", {}, list, more)];
  }

  function body(item) {
    const { table } = item;
    const apart = Object.entries(item.apart).map(([reason, number]) => `${count(number)} ${reason}`);
    const machines = item.machines.map(([index, hits, proofs]) =>
      [Report.machines[index], hits, proofs.map((proof) => Report.evidence[proof]).join(", ")]);
    const rows = [
      item.witness.length
        ? witnessLine(table, item.witness, item.state === "hit" ? "Witness" : "Reached by")
        : [h("dt", {}, "Witness"), h("dd", {}, item.state === "unreachable" ? "none: no input reaches it, which was proved" : "no input known")],
      item.also.map((values) => witnessLine(table, values, "And by")),
      item.decision && [h("dt", {}, "Decision"), h("dd", { class: "mono" }, item.decision)],
      item.witness.length && reasons(item),
      item.hits > 0 && [h("dt", {}, "Evidence"), h("dd", {}, evidence(item))],
      machines.length > 0 && [h("dt", {}, plural(machines.length, "machine")), h("dd", {}, h("ul", { class: "machines" },
        machines.map(([name, hits, proofs]) => h("li", { class: Report.emulated(name) ? "emulated" : "" },
          h("span", { class: "name" }, name), plural(hits, "hit"), h("span", { class: "unit" }, proofs)))))],
      apart.length > 0 && [h("dt", {}, "Not counted"), h("dd", {}, apart.join(", "))],
      item.line > 0 && [h("dt", {}, "Table"), h("dd", {}, `line ${item.line}`)],
      testList(item),
    ];
    return h("dl", { class: "item-body" }, rows);
  }

  function row(item) {
    const box = h("details", { class: `item s-${item.state}`, id: `item-${item.table.number}-${item.id}` },
      h("summary", {}, stateOf(item),
        h("span", { class: "measure" }, MEASURES[item.measure][0]),
        h("span", { class: "label" }, h("strong", {}, item.name), item.detail && h("span", { class: "detail mono" }, item.detail), tagsOf(item)),
        h("span", { class: "num hits" }, count(item.hits), h("span", { class: "unit" }, item.hits === 1 ? " hit" : " hits")),
        h("span", { class: "num tests-of" }, count(Report.testsOf(item.tests).length),
          h("span", { class: "unit" }, Report.testsOf(item.tests).length === 1 ? " test" : " tests"))));
    box.addEventListener("toggle", () => box.open && box.childElementCount === 1 && box.append(body(item)));
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !box.open) return;
      event.stopPropagation();
      box.open = false;
      box.firstElementChild.focus();
    });
    return box;
  }

  return { row };
})();
