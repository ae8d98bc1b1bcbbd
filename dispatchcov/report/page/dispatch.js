"use strict";
// Decisions in the page, with the meaning they have in Python: integers are BigInt, // and % round down.
// A predicate's outcome is true, false or null where it divides by zero.
const Dispatch = (() => {
  const integer = (value) => {
    if (typeof value === "number") return BigInt(value);
    const text = value.int;
    return text.startsWith("-") ? -BigInt(text.slice(1)) : BigInt(text);
  };
  const literal = (value) =>
    typeof value === "number" || (typeof value === "object" && value !== null) ? integer(value) : value;

  class ZeroDivision extends Error {}

  function floorDivide(a, b) {
    if (b === 0n) throw new ZeroDivision();
    const quotient = a / b;
    return a % b !== 0n && a < 0n !== b < 0n ? quotient - 1n : quotient;
  }
  const modulo = (a, b) => a - floorDivide(a, b) * b;

  const OPERATORS = {
    "+": (a, b) => a + b,
    "-": (a, b) => a - b,
    "*": (a, b) => a * b,
    "//": floorDivide,
    "%": modulo,
  };
  const RELATIONS = {
    "==": (a, b) => a === b,
    "!=": (a, b) => a !== b,
    "<": (a, b) => a < b,
    "<=": (a, b) => a <= b,
    ">": (a, b) => a > b,
    ">=": (a, b) => a >= b,
  };
  const FUNCTIONS = {
    min: (values) => values.reduce((a, b) => (b < a ? b : a)),
    max: (values) => values.reduce((a, b) => (b > a ? b : a)),
    ceildiv: ([a, b]) => -floorDivide(-a, b),
  };

  // facts: a Map from variable names to BigInt, string or boolean.
  function evaluate(tree, facts) {
    const [kind, first, second, third] = tree;
    switch (kind) {
      case "Const":
        return literal(first);
      case "Var":
        return facts.get(first);
      case "Neg":
        return -evaluate(first, facts);
      case "Bin":
        return OPERATORS[first](evaluate(second, facts), evaluate(third, facts));
      case "Call":
        return FUNCTIONS[first](second.map((part) => evaluate(part, facts)));
      case "Compare":
        return RELATIONS[first](evaluate(second, facts), evaluate(third, facts));
      case "In":
        return second.map(literal).includes(evaluate(first, facts));
      case "Not":
        return !evaluate(first, facts);
      case "And":
        return first.every((part) => evaluate(part, facts));
      case "Or":
        return first.some((part) => evaluate(part, facts));
    }
    throw new Error(`unknown node ${kind}`);
  }

  const LEVELS = { "+": 5, "-": 5, "*": 6, "//": 6, "%": 6, Neg: 7 };

  // A tree of integers as source text, with the fewest parentheses.
  function text(tree, level = 0) {
    const [kind, first, second, third] = tree;
    let own = LEVELS[kind === "Bin" ? first : kind] ?? 8;
    let written = "";
    if (kind === "Const") {
      written = String(literal(first));
      if (written.startsWith("-")) own = LEVELS.Neg;
    } else if (kind === "Var") written = first;
    else if (kind === "Neg") written = `-${text(first, own + 1)}`;
    else if (kind === "Bin") written = `${text(second, own)} ${first} ${text(third, own + 1)}`;
    else if (kind === "Call") written = `${first}(${second.map((part) => text(part)).join(", ")})`;
    else throw new Error(`no tree of integers: ${kind}`);
    return own < level ? `(${written})` : written;
  }

  function attempt(tree, facts) {
    try {
      return evaluate(tree, facts);
    } catch (error) {
      if (error instanceof ZeroDivision) return null;
      throw error;
    }
  }

  // The value of a formula and the predicate that short-circuit evaluation reads last (-1: none).
  function settle(formula, outcomes) {
    const [kind, inner] = formula;
    if (kind === "Leaf") return [outcomes[inner], inner];
    if (kind === "Opposite") {
      const [value, last] = settle(inner, outcomes);
      return [value === null ? null : !value, last];
    }
    const stop = kind === "Some";
    let last = -1;
    for (const part of inner) {
      const [value, read] = settle(part, outcomes);
      if (read >= 0) last = read;
      if (value === null || value === stop) return [value, last];
    }
    return [!stop, last];
  }

  // As recorded vectors have it: what divides by zero counts as false.
  const holds = (formula, outcomes) => settle(formula, outcomes.map(Boolean))[0];

  function collect(formula, found, wanted) {
    if (!wanted(formula)) return found;
    if (formula[0] === "Leaf") found.add(formula[1]);
    else if (formula[0] === "Opposite") collect(formula[1], found, wanted);
    else for (const part of formula[1]) collect(part, found, wanted);
    return found;
  }
  const leaves = (formula) => [...collect(formula, new Set(), () => true)];

  // The predicates whose outcome makes the formula what it is, in the order they are written.
  function blame(formula, outcomes, found = new Set()) {
    const [kind, inner] = formula;
    if (kind === "Leaf") found.add(inner);
    else if (kind === "Opposite") blame(inner, outcomes, found);
    else {
      const value = holds(formula, outcomes);
      for (const part of inner) if (holds(part, outcomes) === value) blame(part, outcomes, found);
    }
    return [...found];
  }

  function sole(formula, outcomes) {
    const pivotal = leaves(formula).filter((index) =>
      holds(formula, outcomes.with(index, !outcomes[index])));
    return pivotal.length === 1 ? pivotal[0] : null;
  }

  function contains(variable, value) {
    if (variable.values.length) return variable.values.map(literal).includes(value);
    return (
      (variable.min === null || value >= integer(variable.min)) &&
      (variable.max === null || value <= integer(variable.max)) &&
      modulo(value, integer(variable.step)) === 0n
    );
  }

  // One decision. `rule` is null where no rule takes the input; `zero` is the predicate whose division by zero ended it.
  function decide(table, facts) {
    const outcomes = table.predicates.map((predicate) => attempt(predicate.tree, facts));
    const result = { outcomes, rule: null, zero: null, settled: [], fallbacks: [], partitions: [], contract: true };
    result.outside = table.variables.filter((v) => !contains(v, facts.get(v.name))).map((v) => v.name);
    for (const [index, rule] of table.rules.entries()) {
      const [value, last] = settle(rule.guard, outcomes);
      if (value === null) return { ...result, zero: last };
      if (value) {
        result.rule = index;
        break;
      }
      result.settled.push(last);
      result.fallbacks.push({ rule: index, failed: blame(rule.guard, outcomes), sole: sole(rule.guard, outcomes) });
    }
    if (result.rule === null) return result;
    result.contract = holds(table.kernels[table.rules[result.rule].kernel].requires, outcomes);
    for (const partition of table.partitions) {
      if (!partition.rules.includes(result.rule) || !holds(partition.condition, outcomes)) continue;
      for (const bin of partition.bins)
        if (holds(bin.condition, outcomes)) result.partitions.push([partition.name, bin.label]);
    }
    return result;
  }

  // The identity of a region: the selected rule and what settled each earlier one.
  const path = (result) => `${result.rule}:${result.settled.join(",")}`;

  const factsOf = (table, values) =>
    new Map(table.variables.map((variable, i) => [variable.name, literal(values[i])]));

  return { attempt, contains, decide, evaluate, factsOf, integer, leaves, literal, path, settle, text };
})();
if (typeof module !== "undefined") module.exports = Dispatch;
