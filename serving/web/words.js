// Shows tokens, and how the prediction changes without each word.

import {predict} from "/page/api.js";
import {hidden, make, shorten, signed, startOf} from "/page/dom.js";

const WORD = /\p{Script=Han}|[\p{L}\p{M}\p{N}]+(?:['’][\p{L}]+)*|[^\s\p{L}\p{M}\p{N}]/gu;
const MAX_WORDS = 256;
// Characters kept after those that the model saw; they move up if a word is left out.
// Without this limit, a text of 300 kB and its 100 shortened copies exceed the limit of a
// request.
const FOLLOWING_CHARACTERS = 1000;
const CUT_CHARACTERS = 160;
const NUMBERED_WORDS = 8;  // the others show their number in a tooltip

/** Returns how many characters of each column the model saw. */
function findSeen(columns, row, tokenized) {
  return columns.map((name, index) => {
    if (!tokenized || !tokenized.cut[index]) return row[name].length;
    const ends = tokenized.end.filter((_, i) => tokenized.column[i] === index);
    // Ends of tokens are positions in UTF-8 bytes.
    const bytes = new TextEncoder().encode(row[name]).slice(0, Math.max(0, ...ends));
    return new TextDecoder().decode(bytes).length;
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
  const seen = findSeen(columns, row, tokenized);
  const count = tokenized.token.filter((token) => token).length;
  const paragraph = make("p", {className: "token-list"});
  let column = 0;
  tokenized.token.forEach((token, index) => {
    if (!token) return;
    const owner = tokenized.column[index];
    // A column ends at the special token after it.
    if (owner < 0 && index > 0) {
      const cut = tokenized.cut[column];
      if (cut) {
        const rest = row[columns[column]].slice(seen[column]).trim();
        paragraph.append(" ",
          make("del", {className: "cut"}, hidden("cut: "), shorten(rest, CUT_CHARACTERS)));
      }
      column += 1;
    }
    appendToken(paragraph, token, owner);
  });
  const cuts = columns.flatMap((name, index) =>
    tokenized.cut[index] ? [`${tokenized.cut[index]} tokens of ${name}`] : []);
  const note = `${count} tokens` +
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
  const seen = findSeen(columns, row, tokenized);
  const words = columns.flatMap((name, index) =>
    [...row[name].matchAll(WORD)]
      .filter((match) => match.index < seen[index])
      .map((match) => ({name, start: match.index, end: match.index + match[0].length})),
  ).slice(0, MAX_WORDS);
  const short = Object.fromEntries(columns.map((name, index) =>
    [name, startOf(row[name], seen[index] + FOLLOWING_CHARACTERS)]));
  // Includes the whole row: predictions in a batch of another shape differ in the last digits.
  const [whole, ...others] = await predict(
    [short, ...words.map((word) => leaveOut(short, word))]);
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
