// The dispatch flow: rules in order, the predicates of each guard with their outcomes, the kernel at the end.
const Flow = (() => {
  function predicateRow(table, rule, index) {
    const predicate = table.predicates[index];
    const [yes, no] = table.counts[index];
    const alone = Report.ofPredicate(table, "fallbacks", rule, index);
    const never = yes + no === 0 ? "never read" : !yes ? "never true" : !no ? "never false" : "";
    return h("li", { class: "predicate" },
      h("code", {}, predicate.text, never && h("span", { class: "never" }, icon("warn"), never)),
      bar(yes, yes + no, "outcomes"),
      h("span", { class: `num ${yes ? "" : "zero"}` }, count(yes), h("span", { class: "only-read" }, " true")),
      h("span", { class: `num ${no ? "" : "zero"}` }, count(no), h("span", { class: "only-read" }, " false")),
      h("span", { class: "alone" }, alone && [
        h("a", { class: `state s-${alone.state}`, href: linkTo(alone), title: "sole reason of a fallback" }, icon(alone.state), alone.state),
        alone.hits > 0 && h("span", { class: "num" }, count(alone.hits))]));
  }

  const WORDS = { Every: "all of", Some: "any of" };

  function guard(table, rule, formula) {
    const [kind, inner] = formula;
    if (kind === "Leaf") return predicateRow(table, rule, inner);
    if (kind === "Opposite")
      return h("li", { class: "group" }, h("span", { class: "word" }, "not"), h("ul", {}, guard(table, rule, inner)));
    const parts = inner.map((part) => guard(table, rule, part));
    return h("li", { class: "group" }, h("span", { class: "word" }, WORDS[kind]), h("ul", {}, parts));
  }

  function cells(table, regions) {
    return h("ul", { class: "cells" }, regions.map((region) =>
      h("li", {}, h("a", {
        class: `cell s-${region.state}`, href: linkTo(region), title: `${region.state}, ${count(region.hits)}: ${region.label}`,
        "aria-label": `${region.state}: ${region.label}`,
      }, icon(region.state)))));
  }

  function regionsOf(table, rule) {
    const regions = table.items.regions.filter((region) => (region.rules[0] ?? null) === rule);
    if (!regions.length) return null;
    const states = STATES.map((state) => [state, regions.filter((region) => region.state === state).length]);
    const box = h("details", { class: "regions" },
      h("summary", {}, plural(regions.length, "region"),
        states.filter(([, number]) => number).map(([state, number]) =>
          h("span", { class: `state s-${state}` }, icon(state), `${count(number)} ${state}`))));
    box.addEventListener("toggle", () => box.childElementCount === 1 && box.append(cells(table, regions)), { once: true });
    return box;
  }

  function kernelBox(table, rule, item) {
    const kernel = table.kernels[rule.kernel];
    const ran = table.items.kernels[rule.kernel];
    const stale = document.querySelector(`#table-${table.number}`).dataset.stale.split("\n").includes(kernel.name);
    return h("div", { class: `kernel k-${item.state}` },
      h("a", { class: "kernel-name mono", href: linkTo(ran) }, kernel.name),
      h("div", { class: "kernel-facts" }, stateOf(item), item.hits > 0 && evidence(item),
        stale && tag("stale", "stale", "Records of it were made from other sources and count for nothing."),
        tagsOf(item)),
      item.hits === 0 && item.witness.length > 0 && h("div", { class: "reached" }, "reached by ",
        h("span", { class: "mono" }, factsText(table, item.witness)), " ", h("a", { class: "button", href: tryLink(table, item.witness) }, "Try it")),
      kernel.requires_text && h("div", { class: "requires" }, "requires ", h("code", {}, kernel.requires_text)));
  }

  function ruleStep(table, rule, index, entering, total) {
    const item = table.items.rules[index];
    const free = rule.guard[0] === "Every" && !rule.guard[1].length;
    return h("li", { class: `rule s-${item.state}`, id: `rule-${table.number}-${index}` },
      h("div", { class: "enter" }, h("span", { class: "num" }, count(entering)), h("span", { class: "unit" }, " arrive")),
      h("div", { class: "rule-head" },
        h("h4", {}, h("span", { class: "order" }, String(index + 1)), h("a", { href: linkTo(item) }, rule.name)),
        h("div", { class: "share" }, bar(item.hits, total), h("span", { class: "num" }, count(item.hits)),
          h("span", { class: "unit" }, " selected"))),
      h("div", { class: "rule-body" },
        h("ul", { class: "guard" }, free
          ? h("li", { class: "free" }, "no guard: takes the rest")
          : [h("li", { class: "columns", "aria-hidden": "true" }, h("span"), h("span"), h("span", { class: "num" }, "true"),
              h("span", { class: "num" }, "false"), h("span", { class: "num" }, "sole reason")), guard(table, index, rule.guard)]),
        kernelBox(table, rule, item)),
      regionsOf(table, index));
  }

  function render(table, place) {
    const hits = table.items.rules.map((item) => item.hits);
    const lost = table.items.regions.filter((region) => !region.rules.length);
    const total = [...hits, ...lost.map((region) => region.hits)].reduce((a, b) => a + b, 0);
    let left = total;
    const steps = table.rules.map((rule, index) => {
      const step = ruleStep(table, rule, index, left, total);
      left -= hits[index];
      return step;
    });
    if (lost.length) steps.push(h("li", { class: "rule s-missed" },
      h("div", { class: "enter" }, h("span", { class: "num" }, count(left)), h("span", { class: "unit" }, " arrive")),
      h("div", { class: "rule-head" }, h("h4", {}, "no rule takes these inputs")), regionsOf(table, null)));
    place.replaceChildren(h("ol", { class: "flow" }, steps));
  }

  return { render };
})();
