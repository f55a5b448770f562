// Shows tokens, and how the prediction changes without each word.

import {predict} from "/page/api.js";
import {hidden, make, shorten, signed, startOf} from "/page/dom.js";

const WORD = /\p{Script=Han}|[\p{L}\p{M}\p{N}]+(?:['’][\p{L}]+)*|[^\s\p{L}\p{M}\p{N}]/gu;
const MAX_WORDS = 256;
// Characters kept at both ends of what was cut; they move up if a word is left out.
// Without this limit, a text of 300 kB and its 100 shortened copies exceed the limit of a
// request.
const UNSEEN_CHARACTERS = 1000;
const CUT_CHARACTERS = 160;
const NUMBERED_WORDS = 8;  // the others show their number in a tooltip

/**
 * Returns the part of each column that the model did not see: the longest without a token.
 *
 * @returns Its start and end in characters, and the index of the token after it.
 */
function findCuts(columns, row, tokenized) {
  return columns.map((name, index) => {
    const text = row[name];
    if (!tokenized || !tokenized.cut[index]) return {start: text.length, end: text.length};
    // Starts and ends of tokens are positions in UTF-8 bytes.
    const bytes = new TextEncoder().encode(text);
    const weigh = (from, to) => bytes.slice(from, to).filter((byte) => byte > 32).length;
    const cut = {weight: 0};
    let seen = 0;
    const compare = (to, next) => {
      const weight = weigh(seen, to);
      if (weight > cut.weight) Object.assign(cut, {weight, from: seen, to, next});
    };
    tokenized.column.forEach((column, i) => {
      if (column !== index) return;
      compare(tokenized.start[i], i);
      seen = tokenized.end[i];
    });
    compare(bytes.length);
    const count = (end) => new TextDecoder().decode(bytes.slice(0, end)).length;
    return {start: count(cut.from), end: count(cut.to), next: cut.next};
  });
}

const PART = "##";  // how WordPiece marks a token that continues a word

function appendToken(paragraph, token, column) {
  const isPart = token.startsWith(PART) && token.length > PART.length;
  const kind = column < 0 ? " special" : isPart ? " part" : "";
  const node = make("span", {className: "token" + kind, title: token},
    isPart ? token.slice(PART.length) : token);
  const last = paragraph.lastElementChild;
  if (isPart && last?.className === "token-word") last.append(node);
  else paragraph.append(" ", make("span", {className: "token-word"}, node));
}

/** Returns the tokens of a row, by column, and what was cut. */
export function showTokens(columns, row, tokenized) {
  const cutsOfColumns = findCuts(columns, row, tokenized);
  const count = tokenized.token.filter((token) => token).length;
  const paragraph = make("p", {className: "token-list"});
  let column = 0;
  const appendCut = (index) => {
    const {start, end} = cutsOfColumns[index];
    const text = row[columns[index]].slice(start, end).trim();
    paragraph.append(" ",
      make("del", {className: "cut"}, hidden("cut: "), shorten(text, CUT_CHARACTERS)));
  };
  tokenized.token.forEach((token, index) => {
    if (!token) return;
    const owner = tokenized.column[index];
    // A column ends at the special token after it.
    if (owner < 0 && index > 0) {
      if (tokenized.cut[column] && cutsOfColumns[column].next === undefined) appendCut(column);
      column += 1;
    }
    if (owner >= 0 && cutsOfColumns[owner].next === index) appendCut(owner);
    appendToken(paragraph, token, owner);
  });
  const cuts = columns.flatMap((name, index) =>
    tokenized.cut[index] ? [`${tokenized.cut[index]} of ${name}`] : []);
  const note = `${count} ${count === 1 ? "token" : "tokens"}` +
    (cuts.length ? `; cut: ${cuts.join(" and ")}` : "; nothing was cut");
  return [paragraph, make("p", {className: cuts.length ? "note warning" : "note"}, note)];
}

function leaveOut(row, {name, start, end}) {
  const text = row[name];
  // One of the spaces around the word is removed with it.
  const from = start > 0 && /\s/.test(text[start - 1]) ? start - 1 : start;
  return {...row, [name]: text.slice(0, from) + text.slice(end)};
}

/**
 * Predicts a row without each of its words, in one request.
 *
 * @returns Each word, and how much lower the value is without it.
 */
export async function leaveOneOut(columns, row, tokenized, valueOf) {
  const cuts = findCuts(columns, row, tokenized);
  const words = columns.flatMap((name, index) =>
    [...row[name].matchAll(WORD)]
      .filter(({index: start}) => start < cuts[index].start || start >= cuts[index].end)
      .map((match) => ({name, start: match.index, end: match.index + match[0].length})),
  ).slice(0, MAX_WORDS);
  const middles = Object.fromEntries(columns.map((name, index) => {
    const start = cuts[index].start + UNSEEN_CHARACTERS;
    return [name, {start, size: Math.max(0, cuts[index].end - UNSEEN_CHARACTERS - start)}];
  }));
  const short = Object.fromEntries(columns.map((name) => {
    const {start, size} = middles[name];
    const rest = row[name].slice(start + size).replace(/^[\udc00-\udfff]/, "");
    return [name, size ? startOf(row[name], start) + rest : row[name]];
  }));
  const inShort = ({name, start, end}) => {
    const before = row[name].length - short[name].length;
    return start < middles[name].start
      ? {name, start, end} : {name, start: start - before, end: end - before};
  };
  // Includes the whole row: predictions in a batch of another shape differ in the last digits.
  const [whole, ...others] = await predict(
    [short, ...words.map((word) => leaveOut(short, inShort(word)))]);
  return words.map((word, index) =>
    ({...word, effect: valueOf(whole) - valueOf(others[index])}));
}

function describeWord(text, effect, strongest, isNumbered, unit) {
  const number = signed(unit.scale * effect, unit.digits);
  const word = make("span", {
    className: "word" + (effect < 0 ? " against" : " for"),
    title: `${text}: ${number}${unit.name}`,
  }, make("span", {className: "word-text"}, text));
  word.style.setProperty("--strength", strongest ? Math.abs(effect) / strongest : 0);
  if (isNumbered) word.append(make("span", {className: "effect"}, hidden(" "), number));
  else word.append(hidden(` ${number}`));
  return word;
}

/** Returns the texts, whose words are colored by their effects. */
export function showWords(columns, row, words, unit) {
  const sizes = words.map(({effect}) => Math.abs(effect)).sort((a, b) => b - a);
  const strongest = sizes[0] ?? 0;
  const least = sizes[Math.min(NUMBERED_WORDS, sizes.length) - 1] ?? 0;
  return columns.map((name) => {
    const text = row[name];
    const paragraph = make("p", {className: "word-list", dir: "auto"},
      // Its own direction keeps the name from deciding the direction of the text.
      make("span", {className: "visually-hidden", dir: "ltr"}, `${name}: `));
    let position = 0;
    for (const {start, end, effect} of words.filter((word) => word.name === name)) {
      paragraph.append(text.slice(position, start), describeWord(
        text.slice(start, end), effect, strongest, Math.abs(effect) >= least, unit));
      position = end;
    }
    if (position < text.length) {
      paragraph.append(make("span", {className: "unseen"}, text.slice(position)));
    }
    return paragraph;
  });
}
