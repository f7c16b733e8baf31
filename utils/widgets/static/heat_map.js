// A heat map to walk in: an ARIA grid, one cell of it in the tab order. It knows
// nothing of the figure around it; utils/widgets/figure.py joins the files.
//
//   const map = heatMap(el, { label, corner, rowLabels, columnLabels, onSelect, onHover });
//   map.update({ values, marks, selected: [i, j], describe: (i, j) => "..." });
//
// A value from 0 to 1 is a shade and, where there is room, a number; a mark (true)
// rules a cell out. onSelect(i, j) follows a click, a tap or a key. onHover(i, j)
// follows a mouse, and onHover() says that it has left.
//
// Where a figure asks for it: `sideLabels` are columns beside the grid, filled by
// `side` (words, a row each); `notes` stand under the names of the rows; rows
// before `first` are hidden and keep their place.

const GRID_WAYS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

// By the DOM, not as HTML: later chapters show tokens that a student typed.
function element(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function gridCell(i, j) {
  return element("td", {
    role: "gridcell",
    class: "afp-cell",
    tabindex: -1,
    "data-cell": `${i},${j}`,
    "data-lm-suppress-shortcuts": true, // else JupyterLab takes the arrow keys
  });
}

function gridTable({ label, corner, rowLabels, columnLabels, sideLabels = [] }) {
  const head = (role, kind = "") => (name) =>
    element("th", { role, class: kind }, element("span", {}, name));
  const row = (...children) => element("tr", { role: "row" }, ...children);
  const top = row(...[corner, ...columnLabels].map(head("columnheader")),
    ...sideLabels.map(head("columnheader", "afp-side")));
  const rows = rowLabels.map((name, i) =>
    row(head("rowheader")(name), ...columnLabels.map((_, j) => gridCell(i, j)),
      ...sideLabels.map(() => element("td", { role: "gridcell", class: "afp-side" }))));
  return element("table", { role: "grid", class: "afp-grid", "aria-label": label, "aria-readonly": true },
    element("thead", { role: "rowgroup" }, top), element("tbody", { role: "rowgroup" }, ...rows));
}

// Where a key leads from cell (i, j); nothing for a key that is not the grid's.
function destination({ key, ctrlKey, altKey, metaKey }, [i, j], { firstRow, lastRow, lastColumn }) {
  if (altKey || metaKey) return undefined;
  if (key === "Home") return [ctrlKey ? firstRow : i, 0];
  if (key === "End") return [ctrlKey ? lastRow : i, lastColumn];
  if (ctrlKey || !(key in GRID_WAYS)) return undefined;
  const [down, right] = GRID_WAYS[key];
  const within = (x, first, last) => Math.min(last, Math.max(first, x));
  return [within(i + down, firstRow, lastRow), within(j + right, 0, lastColumn)];
}

function showCell(node, { value, mark, chosen, words }) {
  node.style.setProperty("--afp-value", value);
  node.classList.toggle("afp-mark", mark);
  node.replaceChildren(element("span", {}, mark ? "·" : value.toFixed(2)));
  node.setAttribute("aria-label", words);
  node.setAttribute("aria-selected", chosen);
  node.tabIndex = chosen ? 0 : -1;
}

function showHead(head, note) {
  head.querySelector(".afp-note")?.remove();
  if (note) head.append(element("span", { class: "afp-note" }, note));
}

function listen(table, bounds, choose, onHover) {
  const place = ({ target }) => target.closest("[data-cell]")?.dataset.cell.split(",").map(Number);
  table.addEventListener("click", (event) => { if (place(event)) choose(...place(event)); });
  table.addEventListener("keydown", (event) => {
    const next = place(event) && destination(event, place(event), bounds);
    if (!next) return;
    event.preventDefault();
    choose(...next);
  });
  table.addEventListener("mouseover", (event) => onHover(...(place(event) ?? [])));
  table.addEventListener("mouseleave", () => onHover());
}

export function heatMap(el, { onSelect, onHover = () => {}, ...names }) {
  const table = gridTable(names);
  const [top, ...rows] = [...table.querySelectorAll("tr")].map((row) => [...row.children]);
  const width = names.columnLabels.length;
  const bounds = { firstRow: 0, lastRow: names.rowLabels.length - 1, lastColumn: width - 1 };
  const choose = (i, j) => {
    rows[i][j + 1].focus(); // a click does so by itself, but not in every browser
    onSelect(i, j);
  };
  listen(table, bounds, choose, onHover);
  el.replaceChildren(table);

  const update = ({ values, marks, selected: [row, column], describe, side = [], notes = [], first = 0 }) => {
    bounds.firstRow = first;
    top.forEach((node, j) => node.classList.toggle("afp-chosen", j === column + 1));
    rows.forEach(([head, ...cells], i) => {
      head.parentElement.classList.toggle("afp-absent", i < first);
      if (i < first) return;
      head.classList.toggle("afp-chosen", i === row);
      showHead(head, notes[i]);
      cells.slice(width).forEach((node, j) => { node.textContent = side[i][j]; });
      cells.slice(0, width).forEach((node, j) => showCell(node, {
        value: values[i][j],
        mark: marks[i][j],
        chosen: i === row && j === column,
        words: describe(i, j),
      }));
    });
  };
  return { update };
}
