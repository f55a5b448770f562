// Shows the parts of Markdown that model cards have; HTML is shown as text, and
// comments are not shown.

import {make} from "/page/dom.js";

const INLINE = new RegExp([
  /\\([!-/:-@[-`{-~])/,  // escaped
  /`([^`]+)`/,
  /\*\*(.+?)\*\*/,
  /\*([^\s*](?:[^*]*[^\s*])?)\*/,
  /\[([^[\]]+)\]\((https?:\/\/[^\s)]+)\)/,
  /(https?:\/\/[^\s<>)]+[^\s<>).,;])/,
].map(({source}) => source).join("|"), "g");

/** Returns text, with code, emphasis and links as elements. */
function readInline(text) {
  const parts = [];
  let position = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(position, match.index));
    const [whole, escaped, code, bold, emphasis, label, target, address] = match;
    if (escaped) parts.push(escaped);
    else if (code) parts.push(make("code", {}, code));
    else if (bold) parts.push(make("strong", {}, ...readInline(bold)));
    else if (emphasis) parts.push(make("em", {}, ...readInline(emphasis)));
    else parts.push(make("a", {href: target || address, rel: "noreferrer"}, label || address));
    position = match.index + whole.length;
  }
  return [...parts, text.slice(position)];
}

const cellsOf = (line) =>
  line.trim().replace(/^\||(?<!\\)\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());

function readTable([header, , ...rows], label) {
  const line = (content, tag, properties) => make("tr", {},
    ...cellsOf(content).map((cell) => make(tag, properties, ...readInline(cell))));
  return make("div", {className: "scroll", tabIndex: 0, role: "region", "aria-label": label},
    make("table", {},
      make("thead", {}, line(header, "th", {scope: "col"})),
      make("tbody", {}, ...rows.map((row) => line(row, "td", {})))));
}

function readList(lines) {
  const isNumbered = /^\s*\d/.test(lines[0]);
  const items = [];
  for (const line of lines) {
    const match = line.match(/^\s*(?:[-*+]|\d+\.)\s+(.*)$/);
    if (match) items.push(match[1]);
    else items[items.length - 1] += " " + line.trim();
  }
  return make(isNumbered ? "ol" : "ul", {},
    ...items.map((item) => make("li", {}, ...readInline(item))));
}

/** Takes lines from the front while they meet a condition. */
function take(lines, condition) {
  let count = 0;
  while (count < lines.length && condition(lines[count])) count++;
  return lines.splice(0, count);
}

const isHeading = (line) => /^#{1,6}\s/.test(line);
const isItem = (line) => /^\s*(?:[-*+]|\d+\.)\s/.test(line);
const isRow = (line) => /^\s*\|/.test(line);
const isFence = (line) => /^ {0,3}(```|~~~)/.test(line);
const isComment = (line) => /^\s*<!--.*-->\s*$/.test(line);
const isText = (line) => line.trim() !== "" &&
  ![isHeading, isItem, isRow, isFence, isComment].some((test) => test(line));

/** Returns the elements of a card, whose headings begin below a level. */
export function readCard(markdown, level) {
  const lines = markdown.replaceAll("\r\n", "\n").split("\n");
  const nodes = [];
  if (lines[0] === "---") {  // YAML
    const end = lines.indexOf("---", 1);
    const head = lines.splice(0, end < 0 ? 1 : end + 1).slice(1, -1).join("\n");
    if (head) nodes.push(make("details", {}, make("summary", {}, "Metadata"),
      make("pre", {tabIndex: 0}, head)));
  }
  let depth = level, tables = 0;
  while (lines.length) {
    if (isHeading(lines[0])) {
      const [, marks, text] = lines.shift().match(/^(#+)\s+(.*?)\s*#*$/);
      // Without gaps between the levels, which screen readers use to navigate.
      depth = Math.min(level + marks.length, depth + 1, 6);
      nodes.push(make("h" + depth, {}, ...readInline(text)));
    } else if (isFence(lines[0])) {
      lines.shift();
      nodes.push(make("pre", {tabIndex: 0}, take(lines, (line) => !isFence(line)).join("\n")));
      lines.shift();
    } else if (isRow(lines[0])) {
      const rows = take(lines, isRow);
      nodes.push(rows.length > 1 ? readTable(rows, `Table ${++tables}`) : make("p", {}, rows[0]));
    } else if (isItem(lines[0])) {
      nodes.push(readList(take(lines, (line) => isItem(line) || isText(line))));
    } else if (isText(lines[0])) {
      nodes.push(make("p", {}, ...readInline(take(lines, isText).join(" "))));
    } else {
      lines.shift();  // an empty line or a comment
    }
  }
  return nodes;
}
