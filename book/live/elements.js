// Making elements without ever parsing text as markup.
export const make = (tag, attributes, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children);
  return element;
};

// A line of working, its "B_pos" set as B with a subscript, as textbook/pages.py sets it.
export function formula(tag, line) {
  const parts = line.split(/(?<!\w)(\p{L})_([A-Za-z0-9]+)(?!\w)/u); // text, base, subscript, text, …
  return make(tag, {}, ...parts.map((part, i) => (i % 3 === 2 ? make("sub", {}, part) : part)));
}
