// What a page can do besides being read: sort a table, choose a table and open its rows, enlarge a
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

// Drill-down: one select for each key; the row chosen in a table shows its matrices below it.

function matrix([title, text]) {
  const counts = text.split(";").map((row) => row.split(" ").map(Number));
  const heads = counts.map((_, c) => make("th", { scope: "col", textContent: c }));
  const rows = counts.map((row, t) => {
    const all = row.reduce((a, b) => a + b, 0);
    const cells = row.map((count, p) => {
      const heat = all ? count / all : 0;
      const kinds = [count ? "" : "zero", t === p ? "hit" : "", heat > 0.55 ? "strong" : ""];
      const cell = make("td", { textContent: count, className: kinds.join(" ").trim() });
      cell.style.setProperty("--heat", heat.toFixed(3));
      return cell;
    });
    return make("tr", {}, make("th", { scope: "row", textContent: t }), ...cells);
  });
  const corner = make("th", { textContent: "true \\ called", scope: "col" });
  const table = make("table", {}, make("thead", {}, make("tr", {}, corner, ...heads)), make("tbody", {}, ...rows));
  const box = make("div", { className: "scroll", tabIndex: 0, ariaLabel: title }, table);
  box.setAttribute("role", "region");
  return make("figure", {}, make("figcaption", { textContent: title }), box);
}

function select(label, names, chosen, change) {
  const options = names.map((name) => make("option", { textContent: name, value: name }));
  const node = make("select", { ariaLabel: label }, ...options);
  if (names.includes(chosen)) node.value = chosen;
  node.addEventListener("change", () => change(node.value));
  return make("label", {}, label, node);
}

function open(detail, name, views, chosen = views[0].name) {
  const view = views.find((each) => each.name === chosen);
  const seeds = select("Seed", views.map((each) => each.name), chosen, (value) => {
    open(detail, name, views, value);
    detail.querySelector("select").focus();
  });
  detail.replaceChildren(
    make("h4", { textContent: name }),
    make("div", { className: "chooser seeds" }, seeds),
    make("p", { textContent: view.text }),
    make("div", { className: "matrices" }, ...view.matrices.map(matrix)),
  );
}

function openable(choice) {
  const data = choice.querySelector("script");
  if (!data) return;
  const views = JSON.parse(data.textContent);
  const detail = make("div", { className: "detail", ariaLive: "polite" });
  choice.append(detail);
  const rows = [...choice.querySelectorAll("tbody tr")];
  const choose = (row) => {
    for (const each of rows) {
      each.classList.toggle("chosen", each === row);
      each.querySelector("button").ariaPressed = each === row;
    }
    open(detail, row.cells[0].textContent, views[row.dataset.row]);
  };
  for (const row of rows) {
    const button = make("button", { type: "button" }, ...row.cells[0].childNodes);
    button.addEventListener("click", () => choose(row));
    row.cells[0].append(button);
  }
  choose(rows[0]);
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
  choices.forEach(openable);
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
