// What a page can do besides being read: sort a table, choose a table, enlarge a
// figure. All text from data goes through textContent; nothing here makes markup of a string.
"use strict";

function make(name, properties = {}, ...children) {
  const node = Object.assign(document.createElement(name), properties);
  node.append(...children);
  return node;
}

// Sorting: numbers from the largest, words from A; then the other way; then as it was.

function order(head) {
  const ways = head.dataset.kind === "number" ? ["descending", "ascending"] : ["ascending", "descending"];
  return [...ways, "none"][ways.indexOf(head.ariaSort) + 1];
}

function compare(head, way) {
  const place = Number(head.dataset.column);
  const sign = way === "ascending" ? 1 : -1;
  return (left, right) => {
    const [a, b] = [left, right].map((row) => row.cells[place].dataset.sort);
    if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
    return sign * (head.dataset.kind === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
  };
}

function sortBy(table, head) {
  const way = order(head);
  for (const other of table.querySelectorAll("thead th[data-column]")) other.removeAttribute("aria-sort");
  if (way !== "none") head.ariaSort = way;
  const rows = [...table.tBodies[0].rows].sort((a, b) => a.dataset.row - b.dataset.row);
  table.tBodies[0].append(...(way === "none" ? rows : rows.sort(compare(head, way))));
}

for (const table of document.querySelectorAll("table.sortable")) {
  for (const head of table.querySelectorAll("thead th[data-column]")) {
    const button = make("button", { type: "button", title: "Sort" }, ...head.childNodes);
    button.addEventListener("click", () => sortBy(table, head));
    head.append(button);
  }
}

// Drill-down: one select for each key.

function select(label, names, chosen, change) {
  const options = names.map((name) => make("option", { textContent: name, value: name }));
  const node = make("select", { ariaLabel: label }, ...options);
  if (names.includes(chosen)) node.value = chosen;
  node.addEventListener("change", () => change(node.value));
  return make("label", {}, label, node);
}

function drilldown(root) {
  const labels = JSON.parse(root.dataset.labels);
  const choices = [...root.querySelectorAll(":scope > .choice")];
  const keys = new Map(choices.map((choice) => [choice, JSON.parse(choice.dataset.keys)]));
  const chooser = make("div", { className: "chooser" });
  root.prepend(chooser);
  const show = (wanted, changed) => {
    let left = choices;
    const selects = labels.map((label, place) => {
      const names = [...new Set(left.map((choice) => keys.get(choice)[place]))];
      if (!names.includes(wanted[place])) wanted[place] = names[0];
      left = left.filter((choice) => keys.get(choice)[place] === wanted[place]);
      return select(label, names, wanted[place], (value) => show(wanted.with(place, value), place));
    });
    for (const choice of choices) choice.hidden = choice !== left[0];
    chooser.replaceChildren(...selects);
    if (changed !== undefined) chooser.querySelectorAll("select")[changed].focus();
  };
  show([...keys.get(choices[0])]);
}

document.querySelectorAll(".drilldown").forEach(drilldown);

// Figures: a dialog of the browser's own, which Esc closes and which holds the focus.

const dialog = make("dialog");
document.body.append(dialog);
dialog.addEventListener("click", () => dialog.close());
for (const image of document.querySelectorAll(".picture img")) {
  const button = make("button", { type: "button", ariaLabel: `Enlarge: ${image.alt}` });
  image.replaceWith(button);
  button.append(image);
  button.addEventListener("click", () => {
    const close = make("button", { type: "button", textContent: "Close" });
    dialog.ariaLabel = image.alt;
    dialog.replaceChildren(close, make("div", {}, make("img", { src: image.src, alt: image.alt })));
    dialog.showModal();
  });
}

// A table or figure wider than its box fades out at the side where there is more of it, and a line says so.

function cue(box) {
  const line = make("p", { className: "cue", textContent: "scroll sideways for more →", ariaHidden: true });
  box.after(line);
  const look = () => {
    const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
    box.classList.toggle("more", left > 1);
    line.hidden = box.scrollWidth - box.clientWidth <= 1;
  };
  look();
  box.addEventListener("scroll", look, { passive: true });
  new ResizeObserver(look).observe(box);
}

document.querySelectorAll(".scroll, .picture").forEach(cue);

// Print: browsers that do not know ::details-content open the folds this way.

addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details:not([open])")) {
    fold.open = true;
    addEventListener("afterprint", () => (fold.open = false), { once: true });
  }
});
