// Elements, made without ever parsing HTML: all that comes from the data becomes text.
const SVG = "http://www.w3.org/2000/svg";

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== false && child !== ""));
  return element;
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const icon = (name) => svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `#i-${name}` }));

const count = (number) => number.toLocaleString("en");
const plural = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

const badge = (state, ...rest) => h("span", { class: `state s-${state}` }, icon(state), state, ...rest);
const tag = (text, kind = "", title = null) => h("span", { class: `tag ${kind}`, title }, text);

// The state of an item and what else is to know about it, in words.
function stateOf(item) {
  if (item.illegal) {
    const hit = item.hits > 0;
    return h("span", { class: `state ${hit ? "s-missed" : "s-hit"}` }, icon(hit ? "missed" : "hit"),
      hit ? "illegal, hit" : "illegal, not hit");
  }
  return badge(item.state);
}

function tagsOf(item) {
  const emulatedOnly = Report.mixed && item.hits > 0 && item.machines.length > 0 &&
    item.machines.every(([machine]) => Report.emulated(Report.machines[machine]));
  return [
    item.optional && tag("optional"),
    item.unknown && tag("reachable: unknown", "warn", "Whether any input reaches it could not be decided."),
    item.state === "waived" && tag(`waived: ${item.waiver}`, "warn"),
    item.at_least > 1 && tag(`${count(item.hits)} of at least ${count(item.at_least)}`),
    item.measure === "mutants" && item.grade && tag(item.grade),
    emulatedOnly && tag("emulated only", "emulated", "No decision of it was made on the hardware itself."),
  ].filter(Boolean);
}

const PLAIN = /^[^\s"'\\=,]+$/;
function shown(value) {
  if (typeof value !== "string") return String(value);
  return PLAIN.test(value) ? value : JSON.stringify(value);
}

// `M=4 K=4080 dtype=bfloat16`, from values in the table's order.
function factsText(table, values) {
  const facts = Dispatch.factsOf(table, values);
  return [...facts].map(([name, value]) => `${name}=${shown(value)}`).join(" ");
}

function factsChips(table, values) {
  const facts = Dispatch.factsOf(table, values);
  const chips = [...facts].map(([name, value]) => h("span", { class: "fact" }, h("span", {}, `${name}=`), shown(value)));
  return h("span", { class: "facts mono" }, chips.flatMap((chip) => [chip, " "]));
}

// A bar of which `part` of `whole` is filled.
function bar(part, whole, kind = "") {
  const share = whole ? Math.max((100 * part) / whole, part ? 1.5 : 0) : 0;
  return svg("svg", { class: `bar ${kind}`, "aria-hidden": "true", height: 6, width: "100%" },
    svg("rect", { class: "bar-rest", width: "100%", height: "100%", rx: 3 }),
    svg("rect", { class: "bar-part", width: `${share}%`, height: "100%", rx: 3 }));
}
