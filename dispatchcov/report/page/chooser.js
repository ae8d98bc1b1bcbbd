// The chooser: an input, and the decision that the table makes for it, predicate by predicate.
const Chooser = (() => {
  function field(table, variable, value, id, changed) {
    const shared = { id, name: variable.name, oninput: changed };
    if (variable.type === "bool") return h("input", { ...shared, type: "checkbox", checked: value === true });
    if (variable.values.length)
      return h("select", shared, variable.values.map((choice) =>
        h("option", { value: String(Dispatch.literal(choice)), selected: Dispatch.literal(choice) === value },
          shown(Dispatch.literal(choice)))));
    const step = Dispatch.integer(variable.step);
    const bound = (limit, up) => {
      if (limit === null) return null;
      const number = Dispatch.integer(limit);
      const over = ((number % step) + step) % step;
      return String(up && over ? number + step - over : number - over);
    };
    return h("input", {
      ...shared, type: "number", step: String(step), min: bound(variable.min, true), max: bound(variable.max, false),
      value: String(value), inputmode: "numeric", autocomplete: "off",
    });
  }

  // The value in a field; undefined for what is no integer.
  function read(variable, input) {
    if (variable.type === "bool") return input.checked;
    if (variable.type === "enum") return input.value;
    return /^[+-]?\d{1,300}$/.test(input.value.trim()) ? BigInt(input.value.trim()) : undefined;
  }

  const mark = (outcome) =>
    h("span", { class: `outcome o-${outcome}` }, icon(outcome === null ? "warn" : outcome ? "true" : "false"),
      outcome === null ? "divides by zero" : String(outcome));

  // The facts that a predicate reads, and each side of it that is computed from them: `K=4082, K % 8 = 2`.
  function sides(predicate, facts) {
    const named = predicate.reads.map((name) => `${name}=${shown(facts.get(name))}`);
    const [kind, first, ...both] = predicate.tree;
    for (const side of kind === "Compare" ? both : kind === "In" ? [first] : []) {
      if (!["Bin", "Call", "Neg"].includes(side[0])) continue;
      const value = Dispatch.attempt(side, facts);
      if (value !== null) named.push(`${Dispatch.text(side)} = ${value}`);
    }
    return named.join(", ");
  }

  function predicateLine(table, result, index, facts, notes) {
    const predicate = table.predicates[index];
    return h("li", { class: notes.includes("settles it") || notes.includes("sole reason") ? "settles" : "" },
      mark(result.outcomes[index]), h("span", {}, h("code", {}, predicate.text),
        h("span", { class: "unit mono" }, sides(predicate, facts)), notes.map((note) => tag(note))));
  }

  function ruleLines(table, result, facts) {
    const lines = [];
    for (const [index, rule] of table.rules.entries()) {
      if (result.rule !== null && index > result.rule) break;
      const [value, last] = Dispatch.settle(rule.guard, result.outcomes);
      const fallback = result.fallbacks[index];
      const word = value === null ? "divides by zero" : value ? "selected" : "no";
      const notes = (i) => [i === last && value !== true && "settles it", fallback?.sole === i && "sole reason"].filter(Boolean);
      const chosen = Dispatch.leaves(rule.guard).map((i) => predicateLine(table, result, i, facts, notes(i)));
      const splits = value ? rule.splits.map((i) => predicateLine(table, result, i, facts, ["split"])) : [];
      lines.push(h("li", { class: value ? "trace-rule taken" : "trace-rule" },
        h("h4", {}, icon(value ? "hit" : value === null ? "warn" : "false"), rule.name, h("span", { class: "unit" }, word)),
        h("ul", {}, chosen, splits)));
      if (value === null) break;
    }
    return h("ol", { class: "trace" }, lines);
  }

  function where(table, result) {
    const region = Report.regionsByPath(table).get(Dispatch.path(result));
    const tests = region ? Report.testsOf(region.tests).length : 0;
    const told = region
      ? [h("span", { class: "line-of" }, h("a", { href: linkTo(region) }, region.name), stateOf(region),
          `${plural(tests, "test")} ${tests === 1 ? "reaches" : "reach"} it`, tagsOf(region)),
        region.detail && h("span", { class: "detail mono" }, region.detail)]
      : ["not among the listed regions: whether a test reaches it is not known"];
    const partitions = result.partitions.map(([name, label]) => {
      const item = table.items.partitions.find((each) => each.name === name && each.detail === label);
      return h("li", {}, h("a", { href: linkTo(item) }, item.name), item.detail && h("span", { class: "unit mono" }, item.detail),
        stateOf(item), plural(Report.testsOf(item.tests).length, "test"), tagsOf(item));
    });
    return h("dl", { class: "where" },
      h("dt", {}, "Region"), h("dd", {}, told),
      h("dt", {}, partitions.length === 1 ? "Partition" : "Partitions"),
      h("dd", {}, partitions.length ? h("ul", {}, partitions) : "none"));
  }

  function headline(table, result) {
    if (result.zero !== null)
      return h("p", { class: "decision bad" }, icon("warn"), "No decision: ", h("code", {}, table.predicates[result.zero].text),
        " divides by zero.");
    if (result.rule === null) return h("p", { class: "decision bad" }, icon("missed"), "No rule takes this input.");
    const rule = table.rules[result.rule];
    return h("p", { class: "decision" }, h("strong", {}, rule.name), h("span", { class: "arrow" }, "→"),
      h("span", { class: "mono" }, table.kernels[rule.kernel].name));
  }

  function warnings(table, result) {
    const found = [];
    for (const name of result.outside) {
      const variable = table.variables.find((each) => each.name === name);
      found.push(`${name} is outside its domain: expected ${variable.domain}.`);
    }
    if (!result.contract) {
      const kernel = table.kernels[table.rules[result.rule].kernel];
      found.push(`The input violates the contract of ${kernel.name}: requires ${kernel.requires_text}.`);
    }
    return found.map((text) => h("p", { class: "warning" }, icon("warn"), text));
  }

  function render(table, place, changedTo) {
    const output = h("div", { class: "outcome-of", "aria-live": "polite" });
    const inputs = new Map();
    const changed = () => update(true);
    const first = table.items.regions.find((region) => region.witness.length && region.rules[0] === table.rules.length - 1) ??
      table.items.regions.find((region) => region.witness.length);
    const start = first ? Dispatch.factsOf(table, first.witness) : new Map();
    const fallback = (v) => v.type === "bool" ? false : v.values.length ? Dispatch.literal(v.values[0]) : Dispatch.integer(v.min ?? 0);
    const fields = table.variables.map((variable) => {
      const id = `choose-${table.number}-${variable.name}`;
      const input = field(table, variable, start.get(variable.name) ?? fallback(variable), id, changed);
      inputs.set(variable.name, input);
      const label = h("label", { for: id }, variable.name, variable.hardware && h("span", { class: "unit" }, " hardware"));
      const hint = variable.type === "int" && !variable.values.length
        ? h("span", { class: "hint", id: `${id}-hint` }, variable.domain.replace("an integer", "").replace(/^,? /, "") || "any integer") : null;
      if (hint) input.setAttribute("aria-describedby", `${id}-hint`);
      return h("div", { class: `field ${variable.type}` }, label, input, hint);
    });
    const form = h("form", { class: "choose", "aria-label": `input of ${table.op}`, onsubmit: (event) => event.preventDefault() }, fields);
    place.replaceChildren(h("div", { class: "chooser" }, form, output));

    function update(typed) {
      const facts = new Map();
      const bad = [];
      for (const variable of table.variables) {
        const value = read(variable, inputs.get(variable.name));
        if (value === undefined) bad.push(variable);
        inputs.get(variable.name).setAttribute("aria-invalid", String(value === undefined));
        facts.set(variable.name, value);
      }
      if (bad.length)
        return output.replaceChildren(...bad.map((v) => h("p", { class: "warning" }, icon("warn"), `${v.name}: expected ${v.domain}.`)));
      const result = Dispatch.decide(table, facts);
      for (const name of result.outside) inputs.get(name).setAttribute("aria-invalid", "true");
      output.replaceChildren(headline(table, result), ...warnings(table, result),
        ...(result.zero === null ? [where(table, result)] : []), ruleLines(table, result, facts));
      if (typed) changedTo(table, facts);
    }

    function set(facts) {
      for (const [name, value] of facts) {
        const input = inputs.get(name);
        if (!input) continue;
        if (input.type === "checkbox") input.checked = value === true || value === "true";
        else input.value = String(value);
      }
      update(false);
    }

    update(false);
    return { set, focus: () => form.querySelector("input, select")?.focus({ preventScroll: true }) };
  }

  return { render };
})();
