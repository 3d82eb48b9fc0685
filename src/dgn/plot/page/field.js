// Fields and operators on a graph, with the conventions of dgn: edge e leads from source[e] = j to target[e] = i, its
// field is the component at i towards j, and components up to 1e-8 of the largest count as 0.
"use strict";

const Field = (() => {
  const SIGNIFICANT = 1e-8;

  const divide = (value, norm) => (norm === 0 ? 0 : value / norm);
  const largest = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);

  function sumToTarget(graph, values) {
    const total = new Array(graph.labels.length).fill(0);
    graph.target.forEach((i, e) => { total[i] += values[e]; });
    return total;
  }

  function maxToTarget(graph, values) {
    const most = new Array(graph.labels.length).fill(0);
    graph.target.forEach((i, e) => { most[i] = Math.max(most[i], values[e]); });
    return most;
  }

  function gradient(graph, potential) {
    return graph.source.map((j, e) => potential[j] - potential[graph.target[e]]);
  }

  function significant(field) {
    const most = largest(field);
    return field.map((value) => (Math.abs(value) <= SIGNIFICANT * most ? 0 : value));
  }

  // Rows of norm 1 (p = 1 or 2), or 0 where the field is 0.
  function normalize(graph, field, p) {
    const most = largest(field);
    const scaled = significant(field).map((value) => divide(value, most));
    const total = sumToTarget(graph, scaled.map((value) => (p === 1 ? Math.abs(value) : value * value)));
    const norm = p === 1 ? total : total.map(Math.sqrt);
    return scaled.map((value, e) => divide(value, norm[graph.target[e]]));
  }

  // The first of two fields, rotated in the plane that both span at each node; unchanged where they are collinear.
  function rotate(graph, first, second, angle) {
    const one = normalize(graph, first, 2);
    const two = normalize(graph, second, 2);
    const cosine = sumToTarget(graph, one.map((value, e) => value * two[e]));
    const rest = two.map((value, e) => value - cosine[graph.target[e]] * one[e]);
    const sine = sumToTarget(graph, rest.map((value) => value * value)).map(Math.sqrt);
    const length = sumToTarget(graph, one.map(Math.abs));
    return one.map((value, e) => {
      const i = graph.target[e];
      if (!(length[i] > 0 && sine[i] > Math.sqrt(Number.EPSILON))) return value;
      const turned = Math.cos(angle) * value + Math.sin(angle) * divide(rest[e], sine[i]);
      return Math.abs(turned) > 4 * Number.EPSILON ? turned : 0;
    });
  }

  // Pseudorandom numbers in (0, 1) from a seed (mulberry32).
  function randomNumbers(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  // Antisymmetric noise in (-1, 1): both directions of an edge share one draw.
  function noise(graph, seed) {
    const next = randomNumbers(seed);
    const draws = new Map();
    return graph.source.map((j, e) => {
      const i = graph.target[e];
      const pair = Math.min(i, j) * graph.labels.length + Math.max(i, j);
      if (!draws.has(pair)) draws.set(pair, 2 * next() - 1);
      return Math.sign(j - i) * draws.get(pair);
    });
  }

  function distort(graph, field, strength, seed) {
    const mean = divide(field.reduce((sum, value) => sum + Math.abs(value), 0), field.length);
    const random = noise(graph, seed);
    return field.map((value, e) => value + random[e] * strength * mean);
  }

  // Hardened field: the largest component of each node (temperature null; equal ones share) or a softmax.
  function harden(graph, field, temperature) {
    const clean = significant(field);
    const size = clean.map(Math.abs);
    const most = maxToTarget(graph, size);
    const chosen = size.map((value, e) => {
      const top = most[graph.target[e]];
      if (temperature === null) return value >= top * (1 - SIGNIFICANT) ? 1 : 0;
      return Math.exp(temperature * (value - top));
    });
    const total = sumToTarget(graph, chosen);
    return clean.map((value, e) => Math.sign(value) * divide(chosen[e], total[graph.target[e]]));
  }

  // The field selected by the controls, rows of norm 1.
  function shape(graph, settings) {
    const direction = (k) => gradient(graph, graph.potential[k - 1]);
    let field = distort(graph, direction(settings.direction), settings.strength, settings.draw);
    if (settings.partner) field = rotate(graph, field, direction(settings.partner), settings.angle);
    return normalize(graph, field, 1);
  }

  const SIDES = { forward: (value) => Math.max(value, 0), backward: (value) => Math.min(value, 0) };

  // Edge and self weights of an operator: y_i = sum_j w_ij x_j + w_i x_i.
  function weigh(graph, field, settings) {
    const side = SIDES[settings.operator];
    let shaped = side ? field.map(side) : field;
    if (settings.hardening !== "none") {
      shaped = harden(graph, shaped, settings.hardening === "hard" ? null : settings.temperature);
    }
    const edge = normalize(graph, shaped, 1);
    const slope = settings.operator === "derivative" || settings.operator === "absolute";
    if (!slope) return { edge: edge.map(Math.abs), self: graph.labels.map(() => 0) };
    return { edge, self: sumToTarget(graph, edge).map((total) => 0 - total) };
  }

  function apply(graph, weights, signal, absolute) {
    const summed = sumToTarget(graph, weights.edge.map((weight, e) => weight * signal[graph.source[e]]));
    const noise = 1e-12 * largest(signal); // rounding errors, which would get a colour
    const result = summed.map((value, i) => value + weights.self[i] * signal[i])
      .map((value) => (Math.abs(value) <= noise ? 0 : value));
    return absolute ? result.map(Math.abs) : result;
  }

  // The name of the operator as an aggregator of dgn.
  function aggregator(settings) {
    const kinds = { smoothing: "av", derivative: "dx", absolute: "dx", forward: "fwd", backward: "bwd" };
    const option = { none: "", hard: "-hard", soft: `-soft${settings.temperature}` }[settings.hardening];
    return `${kinds[settings.operator]}${settings.direction}${option}${settings.operator === "derivative" ? "-signed" : ""}`;
  }

  function compute(graph, settings, signal) {
    const field = shape(graph, settings);
    const weights = weigh(graph, field, settings);
    const result = apply(graph, weights, signal, settings.operator === "absolute");
    return { field, ...weights, result, name: aggregator(settings) };
  }

  return { compute, gradient, noise };
})();
