// Drawings of a graph as SVG.
"use strict";

const Draw = (() => {
  const BOND = 96, RADIUS = 18, MARGIN = 34, NARROWEST = 190, MOST_NUMBERS = 60, MOST_LETTERS = 18;

  function make(name, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
    element.append(...children.filter((child) => child !== null));
    return element;
  }

  // A formatted number; the largest of its group decides on the decimals: two for weights and potentials.
  function number(value, most = 1) {
    const decimals = most >= 1000 ? 0 : most >= 0.1 ? 2 : 3;
    const fixed = most >= 0.01 && most < 1e5;
    if (Math.abs(value) < (fixed ? 0.5 * 10 ** -decimals : 0.005 * most)) return "0";
    return (fixed ? value.toFixed(decimals) : value.toExponential(2).replace("+", "")).replaceAll("-", "\u2212");
  }

  // A colour of the theme between brown (-1), neutral (0) and violet (1).
  function tint(share) {
    const part = Math.round(100 * Math.min(Math.abs(share), 1));
    return `color-mix(in oklab, var(--${share < 0 ? "negative" : "positive"}) ${part}%, var(--neutral))`;
  }

  // Text colour on a tint; on medium browns the theme decides.
  function ink(share) {
    if (share >= -0.55 && share <= 0.6) return "var(--ink)";
    return share > 0 || share < -0.87 ? "var(--on-strong)" : "var(--on-brown)";
  }
  const bound = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;

  function places(graph) {
    return graph.position.map(([x, y]) => [x * BOND, -y * BOND]);
  }

  function fit(svg, place) {
    const xs = place.map(([x]) => x), ys = place.map(([, y]) => y);
    const middle = (Math.min(...xs) + Math.max(...xs)) / 2, top = Math.min(...ys) - MARGIN;
    const width = Math.max(Math.max(...xs) - Math.min(...xs) + 2 * MARGIN, NARROWEST); // otherwise one node would fill the card
    const height = Math.max(...ys) - top + MARGIN, left = middle - width / 2;
    svg.setAttribute("viewBox", `${left} ${top} ${width} ${height}`);
    size(svg, Math.min(width * 0.62, 900), width * 1.15, width / height);
  }

  // The style sheet removes the minimal width where the height is bounded, to avoid empty space beside the drawing.
  function size(svg, least, most, ratio) {
    svg.style.setProperty("--least", `${least}px`);
    svg.style.setProperty("--ratio", ratio);
    svg.style.maxWidth = `${most}px`;
  }

  // Bonds, with as many lines as their order; the second line of an aromatic bond is dashed.
  function bonds(graph, place) {
    const group = make("g", { class: "bonds" });
    graph.lines.forEach(([i, j, order]) => {
      const [[x1, y1], [x2, y2]] = [place[i], place[j]];
      const length = Math.hypot(x2 - x1, y2 - y1) || 1;
      const across = [-(y2 - y1) / length, (x2 - x1) / length];
      const many = order === 1.5 ? 2 : Math.max(1, Math.round(order));
      for (let n = 0; n < many; n += 1) {
        const shift = 6 * (n - (many - 1) / 2);
        const ends = { x1: x1 + shift * across[0], y1: y1 + shift * across[1],
                       x2: x2 + shift * across[0], y2: y2 + shift * across[1] };
        group.append(make("line", order === 1.5 && n === 1 ? { ...ends, "stroke-dasharray": "4 4" } : ends));
      }
    });
    return group;
  }

  // The half of an edge at its target i: as thick as the weight with which i reads j, with an arrow along the field.
  function half(graph, place, e, weight, field, numbers) {
    const [i, j] = [graph.target[e], graph.source[e]];
    if (i === j) return null;
    const [[x, y], [far, high]] = [place[i], place[j]];
    const length = Math.hypot(far - x, high - y) || 1;
    const [ux, uy] = [(far - x) / length, (high - y) / length];
    const at = (along, across) => [x + ux * along - uy * across, y + uy * along + ux * across];
    const [start, end] = [at(Math.min(RADIUS, length / 2), 0), at(length / 2 - 1, 0)];
    const group = make("g", { class: "half" });
    group.append(make("line", {
      x1: start[0], y1: start[1], x2: end[0], y2: end[1], class: weight === 0 ? "none" : "",
      "stroke-width": weight === 0 ? 1.5 : 2 + 9 * Math.abs(weight), stroke: weight === 0 ? "" : tint(weight < 0 ? -0.85 : 0.85),
    }));
    if (field !== 0) {
      const tip = field > 0 ? 1 : -1, middle = (RADIUS + length / 2) / 2;
      const points = [at(middle + 5 * tip, 0), at(middle - 4 * tip, 5), at(middle - 4 * tip, -5)];
      group.append(make("polygon", { class: "arrow", points: points.map((point) => point.join(",")).join(" ") }));
    }
    if (numbers && weight !== 0) {
      // Numbers are wider than high: next to a steep edge they need a larger offset.
      const [tx, ty] = at((RADIUS + length / 2) / 2 - 1, 12 + 8 * Math.abs(uy));
      group.append(make("text", { x: tx, y: ty, class: "weight" }, number(weight)));
    }
    group.append(make("title", {}, `${graph.labels[i]} reads ${graph.labels[j]} with ${number(weight)}`));
    return group;
  }

  function node(graph, place, i, shown, share, numbers) {
    const [x, y] = place[i];
    const size = Math.min(12, 50 / Math.max(graph.labels[i].length, 2));
    const group = make("g", { class: "node", "data-node": i },
      make("circle", { cx: x, cy: y, r: RADIUS, fill: tint(share) }),
      make("text", { x, y: numbers ? y - 5 : y, fill: ink(share), "font-size": numbers ? Math.min(size, 10.5) : size },
        graph.labels[i]));
    if (numbers) {
      group.append(make("text", { x, y: y + 6.5, fill: ink(share), "font-size": Math.min(9.5, 52 / shown.length) }, shown));
    }
    group.append(make("title", {}, `${graph.labels[i]}: ${shown}`));
    return group;
  }

  // Nodes coloured by values; edges without or with weights.
  function graph(svg, scene, values, weights, numbers) {
    const place = places(scene), most = bound(values);
    const layer = [bonds(scene, place)];
    if (weights) {
      const room = scene.lines.length <= 1.5 * values.length; // with more edges the numbers would overlap
      scene.source.forEach((_, e) => {
        const drawn = half(scene, place, e, weights.edge[e], weights.field[e], numbers && room);
        if (drawn) layer.push(drawn);
      });
    }
    values.forEach((value, i) => {
      layer.push(node(scene, place, i, number(value, most), value / most, numbers));
    });
    svg.replaceChildren(...layer);
    fit(svg, place);
  }

  // The operator as a matrix: row i reads column j.
  function matrix(svg, scene, weights) {
    const n = scene.labels.length, cell = n <= 20 ? 34 : 16;
    const names = n > 60 ? [] : scene.labels.map((label) => (label.length > MOST_LETTERS ? `${label.slice(0, MOST_LETTERS - 1)}\u2026` : label));
    const room = names.reduce((most, name) => Math.max(most, 14 + 7 * name.length), n <= 60 ? 40 : 4);
    const cells = new Map();
    const add = (i, j, value) => cells.set(i * n + j, (cells.get(i * n + j) || 0) + value);
    scene.source.forEach((j, e) => add(scene.target[e], j, weights.edge[e]));
    weights.self.forEach((value, i) => add(i, i, value));
    const drawn = [make("rect", { x: room, y: room, width: n * cell, height: n * cell, class: "sheet" })];
    cells.forEach((value, key) => {
      if (value === 0) return;
      const [i, j] = [Math.floor(key / n), key % n];
      const [x, y] = [room + j * cell, room + i * cell];
      const group = make("g", {}, make("rect", { x, y, width: cell, height: cell, fill: tint(value) }),
        make("title", {}, `row ${scene.labels[i]}, column ${scene.labels[j]}: ${number(value)}`));
      if (n <= 20) group.append(make("text", { x: x + cell / 2, y: y + cell / 2, fill: ink(value) }, number(value)));
      drawn.push(group);
    });
    names.forEach((name, i) => {
      const middle = room + (i + 0.5) * cell;
      drawn.push(make("text", { x: room - 6, y: middle, class: "row" }, name));
      drawn.push(make("text", { x: middle, y: room - 6, class: "column", transform: `rotate(-90 ${middle} ${room - 6})` }, name));
    });
    svg.replaceChildren(...drawn);
    svg.setAttribute("viewBox", `0 0 ${room + n * cell + 2} ${room + n * cell + 2}`);
    size(svg, Math.min(room + n * cell, 900) * 0.62, Math.max((room + n * cell) * 1.1, 160), 1);
  }

  return { bound, graph, matrix, number, MOST_NUMBERS };
})();
