// Making elements without ever parsing text as markup.
export const make = (tag, attributes, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};

// A number with the mark of its kind, as textbook/kinds.py writes it.
export const marked = (kind, text) =>
  make("span", { className: `kind kind-${kind}` }, make("span", { className: "unseen" }, `${kind} `), text);

// What a field for a number holds: one, nothing, or what is none, such as "1e".
export const numberOf = (field) =>
  field.validity.badInput ? "no number" : field.value === "" ? null : Number(field.value);

// A line of working set as textbook/pages.py sets it: symbols in italics, "B_pos" as B with a subscript, units upright.
const FORMULA = /(?:^|(?<=: ))\p{L}[\p{L}\p{N}_]* [=≈] /u;
const SUBSCRIPTED = /(?<![\p{L}\p{N}_])(\p{L})_([A-Za-z0-9]+)(?![\p{L}\p{N}_])/u;
const SYMBOL = /(?<![\p{L}\p{N}_/])(?<!\d )(\p{L})(?:_([A-Za-z0-9]+))?(?![\p{L}\p{N}_])/u;

export function formula(tag, line) {
  const start = line.search(FORMULA);
  const end = start < 0 ? line.length : start;
  return make(tag, {}, ...symbols(line.slice(0, end), SUBSCRIPTED), ...symbols(line.slice(end), SYMBOL));
}

function symbols(text, pattern) {
  return text.split(pattern).flatMap((part, i) => { // text, base, subscript, text, …
    if (i % 3 === 1) return make("var", {}, part);
    return i % 3 === 2 ? (part ? make("sub", {}, part) : []) : part;
  });
}
