// The page: drawings, tables and a summary that follow the controls.
"use strict";

const Page = (() => {
  const scenes = JSON.parse(document.getElementById("scenes").textContent);
  const get = (id) => document.getElementById(id);
  const controls = ["graph", "direction", "operator", "hardening", "temperature", "angle", "strength", "draw", "signal",
    "node", "numbers"];
  const defaults = Object.fromEntries(controls.map((id) => [id, id === "numbers" ? true : get(id).value]));
  let announced = 0;

  const scene = () => scenes[Number(get("graph").value) || 0];
  const bare = () => scene().lines.length === 0; // without edges there is no direction
  const capital = (word) => word[0].toUpperCase() + word.slice(1);

  function options(id, entries) {
    const chosen = get(id).value;
    get(id).replaceChildren(...entries.map(([value, text]) => new Option(text, value)));
    get(id).value = entries.some(([value]) => String(value) === chosen) ? chosen : String(entries[0][0]);
  }

  function settings() {
    const direction = Number(get("direction").value), count = scene().potential.length;
    return {
      direction,
      partner: count < 2 ? 0 : direction < count ? direction + 1 : direction - 1,
      operator: get("operator").value,
      hardening: get("hardening").value,
      temperature: Number(get("temperature").value),
      angle: Number(get("angle").value) * Math.PI / 180,
      strength: Number(get("strength").value),
      draw: Math.max(1, Math.round(Number(get("draw").value) || 1)),
    };
  }

  const single = () => get("signal").selectedIndex === 0; // by index: a signal may have any name

  function signal() {
    const name = get("signal").value, chosen = Number(get("node").value);
    return single() ? scene().labels.map((_, i) => (i === chosen ? 1 : 0)) : scene().signals[name];
  }

  // Controls that depend on the graph: its directions, nodes and signals.
  function choose() {
    const { labels, notes, signals, word } = scene();
    options("direction", notes.map((note, k) => [k + 1, bare() ? "none" : `${k + 1}: \u03bb = ${note}`]));
    options("node", labels.map((label, i) => [i, label]));
    options("signal", [["one", `1 at one ${word}, 0 elsewhere`], ...Object.keys(signals).map((name) => [name, name])]);
    get("node-word").textContent = capital(word);
    document.querySelectorAll(".word").forEach((place) => { place.textContent = word; });
  }

  function enable(asked) {
    const { word } = scene();
    controls.filter((id) => id !== "graph").forEach((id) => { get(id).disabled = bare(); });
    get("angle-help").textContent = "";
    if (bare()) return;
    get("temperature").disabled = asked.hardening !== "soft";
    get("angle").disabled = !asked.partner;
    get("angle-help").textContent = asked.partner
      ? `in the plane of the fields of directions ${asked.direction} and ${asked.partner}; stays where they span none`
      : "needs two directions";
    get("draw").disabled = asked.strength === 0;
    get("node").disabled = !single();
    get("angle-value").textContent = `${get("angle").value}\u00b0`;
    get("strength-value").textContent = Number(get("strength").value).toFixed(2);
    get("temperature-value").textContent = get("temperature").value;
    get("hint").textContent = `Click ${word === "atom" ? "an atom" : "a node"}, or reach it with the arrow keys and press Enter, to set the signal to 1 there.`;
  }

  function row(cells) {
    const line = document.createElement("tr");
    cells.forEach((cell, place) => {
      const element = document.createElement(place ? "td" : "th");
      if (!place) element.scope = "row";
      element.textContent = cell;
      line.append(element);
    });
    return line;
  }

  function tables(found, x) {
    const { labels, potential, source, target } = scene(), show = Draw.number;
    const phi = potential[Number(get("direction").value) - 1];
    const [mostPhi, mostX, mostResult] = [phi, x, found.result].map(Draw.bound);
    get("nodes").replaceChildren(...labels.map((label, i) =>
      row([label, show(phi[i], mostPhi), show(found.self[i]), show(x[i], mostX), show(found.result[i], mostResult)])));
    get("edges").replaceChildren(...source.map((j, e) =>
      row([`${labels[target[e]]} reads ${labels[j]}`, show(found.field[e]), show(found.edge[e])])));
  }

  // Without edges, a sentence replaces the drawings.
  function drawBare() {
    const { name, word, potential } = scene();
    Draw.graph(get("field"), scene(), potential[0], null, false);
    clearTimeout(announced);
    get("summary").textContent = `${name}: no two ${word}s are joined, so there is no direction, no field and no weight.`;
  }

  const range = (values) =>
    [Math.min(...values), Math.max(...values)].map((value) => Draw.number(value, Draw.bound(values))).join(" to ");

  function summary(found, x) {
    const { name, labels, notes, source, target } = scene();
    const most = found.edge.reduce((best, weight, e) => (Math.abs(weight) > Math.abs(found.edge[best]) ? e : best), 0);
    const read = `The largest weight is ${Draw.number(found.edge[most])}: ${labels[target[most]]} reads ${labels[source[most]]}.`;
    const top = found.result.reduce((best, value, i) => (Math.abs(value) > Math.abs(found.result[best]) ? i : best), 0);
    const note = notes[Number(get("direction").value) - 1];
    return `${name}, aggregator ${found.name}, \u03bb = ${note}. ${read} `
      + `The signal goes from ${range(x)}, the result from ${range(found.result)}, strongest at ${labels[top]}.`;
  }

  // Nodes of the first drawing are buttons with a single tab stop (roving tabindex).
  function buttons(x) {
    const chosen = Number(get("node").value), { labels, potential } = scene();
    const phi = potential[Number(get("direction").value) - 1];
    const [mostPhi, mostX] = [phi, x].map(Draw.bound);
    get("field").querySelectorAll(".node").forEach((node, i) => {
      const pressed = single() && i === chosen;
      const told = `${labels[i]}, potential ${Draw.number(phi[i], mostPhi)}, signal ${Draw.number(x[i], mostX)}`;
      const attributes = { role: "button", tabindex: i === chosen ? 0 : -1, "aria-pressed": pressed, "aria-label": told };
      Object.entries(attributes).forEach(([key, value]) => node.setAttribute(key, value));
    });
  }

  function state() {
    const asked = settings(), x = signal();
    return { ...Field.compute(scene(), asked, x), settings: asked, signal: x };
  }

  function draw() {
    const numbers = get("numbers").checked && scene().labels.length <= Draw.MOST_NUMBERS;
    const found = state(), x = found.signal;
    enable(found.settings);
    document.querySelectorAll(".joined").forEach((part) => { part.hidden = bare(); });
    document.querySelectorAll(".alone").forEach((part) => { part.hidden = !bare(); });
    get("field").setAttribute("aria-describedby", bare() ? "summary" : "hint legend");
    if (bare()) return drawBare();
    Draw.graph(get("field"), scene(), scene().potential[found.settings.direction - 1], found, numbers);
    Draw.graph(get("before"), scene(), x, null, numbers);
    Draw.graph(get("after"), scene(), found.result, null, numbers);
    Draw.matrix(get("matrix"), scene(), found);
    buttons(x);
    tables(found, x);
    document.querySelectorAll(".name").forEach((place) => { place.textContent = found.name; });
    get("before").setAttribute("aria-label", `Signal, from ${range(x)}; numbers in the table below`);
    get("after").setAttribute("aria-label", `Result, from ${range(found.result)}; numbers in the table below`);
    // A slider moves many times a second: announce its final value only.
    clearTimeout(announced);
    announced = setTimeout(() => { get("summary").textContent = summary(found, x); }, 150);
  }

  function pick(i) {
    if (bare()) return;
    get("signal").selectedIndex = 0;
    get("node").value = String(i);
    draw();
    get("field").querySelector(`[data-node="${i}"]`).focus();
  }

  function onKey(event) {
    const node = event.target.closest(".node");
    if (!node) return;
    const count = scene().labels.length, i = Number(node.dataset.node);
    const go = (other) => { // the tab stop moves along, otherwise Shift+Tab would return into the drawing
      node.setAttribute("tabindex", -1);
      other.setAttribute("tabindex", 0);
      other.focus();
    };
    const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: count - 1, ArrowUp: count - 1 };
    if (event.key === "Enter" || event.key === " ") pick(i);
    else if (event.key in steps) go(get("field").querySelector(`[data-node="${(i + steps[event.key]) % count}"]`));
    else return;
    event.preventDefault();
  }

  // On a narrow screen the drawing comes first and stays visible, so that the effect of a control is visible too.
  function arrange(narrow) {
    if (narrow.matches) get("controls").before(get("field-card"));
    else get("summary").after(get("field-card"));
  }

  function start() {
    const narrow = window.matchMedia("(max-width: 52rem)");
    narrow.addEventListener("change", () => arrange(narrow));
    arrange(narrow);
    options("graph", scenes.map(({ name }, number) => [number, name]));
    choose();
    get("controls").addEventListener("input", (event) => {
      if (event.target.id === "graph") choose();
      draw();
    });
    get("controls").addEventListener("submit", (event) => event.preventDefault());
    get("reset").addEventListener("click", () => {
      controls.filter((id) => id !== "graph" && id !== "numbers").forEach((id) => { get(id).value = defaults[id]; });
      get("numbers").checked = true;
      choose();
      draw();
    });
    get("field").addEventListener("click", (event) => {
      const node = event.target.closest(".node");
      if (node) pick(Number(node.dataset.node));
    });
    get("field").addEventListener("keydown", onKey);
    get("theme").addEventListener("input", () => { document.documentElement.dataset.theme = get("theme").value; });
    draw();
  }

  return { scenes, start, state };
})();

Page.start();
