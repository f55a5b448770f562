const PAGE_ROWS = 10;
const LONG_TEXT = 600;

// The contents: marks the section that is read.

const links = new Map([...document.querySelectorAll("nav a")].map(
  (link) => [link.hash.slice(1), link]).filter(([id]) => id));
const observer = new IntersectionObserver((entries) => {
  for (const {target, isIntersecting} of entries) {
    if (!isIntersecting) continue;
    for (const link of links.values()) link.removeAttribute("aria-current");
    links.get(target.id).setAttribute("aria-current", "true");
  }
}, {rootMargin: "-10% 0% -80% 0%"});
for (const id of links.keys()) observer.observe(byId(id));

// Printing: everything is open.

let opened = [];
addEventListener("beforeprint", () => {
  opened = [...document.querySelectorAll("details:not([open])")];
  for (const details of opened) details.open = true;
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
});

// The worst rows.

function textCell(text) {
  const cell = make("dd", {dir: "auto"}, text.slice(0, LONG_TEXT));
  if (text.length > LONG_TEXT) {
    const button = make("button", {type: "button", className: "text-more"},
      "Show all " + text.length.toLocaleString("en") + " characters");
    button.addEventListener("click", () => cell.replaceChildren(text));
    cell.append("…", button);
  }
  return cell;
}

function shareItem(name, share, isLabel, isPredicted) {
  const fill = make("div", {className: "fill"});
  fill.style.width = 100 * share + "%";
  const tags = [];
  if (isLabel) tags.push("label");
  if (isPredicted) tags.push("predicted");
  return make("li", {className: isLabel ? "is-label" : ""},
    make("span", {}, make("bdi", {}, name),
      make("span", {className: "tag"}, tags.join(", "))),
    make("span", {className: "n"},
      share === null ? "NaN" : (100 * share).toFixed(1) + " %"),
    make("div", {className: "track"}, fill));
}

function tokenList(row) {
  const cut = row.cut ? ", " + row.cut + " cut off" : "";
  const tokens = row.tokens.map((token) => make("span",
    {className: /^\[.+\]$/.test(token) ? "special" : ""}, token));
  return make("details", {},
    make("summary", {}, counted(row.tokens.length, "token") + cut),
    make("div", {className: "tokens"}, ...tokens));
}

function rowItem(row, {classes, columns}) {
  const isRight = row.label === row.prediction;
  const mark = classes.length ? (isRight ? "✓ " : "✕ ") : "";
  const loss = typeof row.loss === "number" ? row.loss.toFixed(3) : row.loss;
  const head = make("p", {className: "head"},
    make("span", {}, mark, "label ", make("b", {}, make("bdi", {}, row.label)),
      ", predicted ", make("b", {}, make("bdi", {}, row.prediction))),
    make("span", {className: "tag"}, "loss " + loss));
  head.prepend(make("h3", {}, "Row " + row.id));
  const texts = make("dl", {}, ...row.texts.flatMap((text, index) =>
    [make("dt", {}, columns[index] ?? ""), textCell(text)]));
  const shares = make("ul", {className: "shares"}, ...row.probabilities.map(
    ([index, ...share]) => shareItem(classes[index], ...share)));
  const rest = classes.length - row.probabilities.length;
  if (row.probabilities.length && rest > 0)
    shares.append(make("li", {}, make("span", {className: "tag"},
      "and " + rest + " more")));
  const item = make("li", {}, head, make("div", {className: "body"}, texts, shares));
  if (row.tokens.length) item.append(tokenList(row));
  return item;
}

function startRows(data) {
  const list = byId("row-list");
  const search = byId("row-search"), sort = byId("row-sort"), pair = byId("row-pair");
  const more = byId("row-more");
  let rows = [];
  for (const row of data.rows)
    row.content = [row.id, row.label, row.prediction, ...row.texts].join("\n")
      .toLocaleLowerCase();

  function showMore() {
    const start = list.children.length;
    list.append(...rows.slice(start, start + PAGE_ROWS).map((row) => rowItem(row, data)));
    more.hidden = list.children.length >= rows.length;
    byId("row-count").textContent = rows.length.toLocaleString("en") + " of " +
      counted(data.rows.length, "row");
    return list.children[start];
  }

  function update() {
    const words = search.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const key = sort.value.replace("-", "");
    const sign = sort.value.startsWith("-") ? 1 : -1;
    const [label, prediction] = data.pairs[pair?.value - 1] ?? [];
    rows = data.rows.filter((row) =>
      words.every((word) => row.content.includes(word)) &&
      (label === undefined || (row.label === label && row.prediction === prediction)));
    // NaN is the worst loss.
    const value = (row) => typeof row.loss === "string" && key === "loss"
      ? Infinity : row[key] ?? 0;
    rows.sort((a, b) => sign * compare(value(a), value(b)) || 0);
    list.replaceChildren();
    showMore();
  }

  byId("row-controls").addEventListener("submit", (event) => event.preventDefault());
  for (const control of [search, sort, pair]) control?.addEventListener("input", update);
  more.addEventListener("click", () => {
    const first = showMore();
    first.tabIndex = -1;
    first.focus();
  });
  update();
}

if (byId("row-data")) startRows(JSON.parse(byId("row-data").textContent));
