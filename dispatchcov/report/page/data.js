// The report's data: test sets unpacked when they are asked for, all items of a table in one list.
const MEASURES = {
  partitions: ["partition", "partitions", "A named requirement: a rule and a condition, one line for each bin."],
  rules: ["rule", "rules", "A rule that was selected."],
  fallbacks: ["fallback", "fallbacks", "A predicate that alone kept its rule from being selected."],
  splits: ["split", "splits", "A side of a predicate that matters inside the kernel."],
  regions: ["region", "regions", "All inputs that take one path through the table."],
  boundaries: ["boundary", "boundaries", "The nearest inputs on the two sides of a predicate."],
  mcdc: ["MC/DC", "MC/DC", "A pair of decisions in which one predicate alone makes the difference."],
  mutants: ["mutant", "mutants", "One change of a guard, hit if a recorded decision notices it."],
  kernels: ["kernel", "kernels", "A kernel that ran, by the account of whoever launched it."],
};
const STATES = ["missed", "not-run", "elsewhere", "waived", "hit", "unreachable"];

const Report = (() => {
  const raw = JSON.parse(document.getElementById("data").textContent);
  const unpacked = new Map();

  function indices(packed) {
    if (typeof packed !== "string") {
      let at = 0;
      return packed.map((gap) => (at += gap));
    }
    const found = [];
    const bytes = atob(packed);
    for (let i = 0; i < bytes.length; i++)
      for (let bit = 0; bit < 8; bit++) if ((bytes.charCodeAt(i) >> bit) & 1) found.push(8 * i + bit);
    return found;
  }

  // The indices of the tests of set `number`, which is 0 for none.
  function testsOf(number) {
    if (!number) return [];
    if (!unpacked.has(number)) unpacked.set(number, indices(raw.sets[number - 1]));
    return unpacked.get(number);
  }

  function item(table, measure, entry, index) {
    const full = {
      detail: "", rules: [], hits: 0, tests: 0, evidence: [], machines: [], apart: {}, witness: [], decision: "",
      line: 0, at_least: 1, needs: [], waiver: "", also: [], grade: "", ...entry,
    };
    full.measure = measure;
    full.table = table;
    full.id = `${measure}-${index}`;
    full.label = full.detail ? `${full.name} [${full.detail}]` : full.name;
    full.ruleNames = full.rules.map((rule) => table.rules[rule].name);
    return full;
  }

  const tables = raw.tables.map((table, number) => {
    table.number = number;
    table.all = [];
    for (const measure of Object.keys(MEASURES)) {
      table.items[measure] = table.items[measure].map((entry, i) => item(table, measure, entry, i));
      table.all.push(...table.items[measure]);
    }
    return table;
  });

  // The region that each path leads to, found out with the witness of each region.
  function regionsByPath(table) {
    if (table.paths) return table.paths;
    table.paths = new Map();
    for (const region of table.items.regions)
      if (region.witness.length) {
        const result = Dispatch.decide(table, Dispatch.factsOf(table, region.witness));
        table.paths.set(Dispatch.path(result), region);
      }
    return table.paths;
  }

  // The predicate's item in one of a rule's lists, e.g. its fallback.
  function ofPredicate(table, measure, rule, predicate) {
    const text = table.predicates[predicate].text;
    const ours = (item) => item.rules[0] === rule && (item.detail === text || item.detail === `${text} (masking)`);
    return table.items[measure].find(ours);
  }

  const emulated = (machine) => machine.includes(", emulates ");
  const mixed = !raw.machines.every(emulated);
  return { ...raw, tables, testsOf, regionsByPath, ofPredicate, emulated, mixed };
})();
