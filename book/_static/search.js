// The search says what it found where the eye sees it: those who listen hear it too.
const results = document.getElementById("search-results");
Documentation.TRANSLATIONS["Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories."] =
  "No page has all of these words. Check their spelling, or search for fewer.";
Documentation.TRANSLATIONS["Search finished, found ${resultCount} page(s) matching the search query."] = "Places found: ${resultCount}.";
new MutationObserver(() => results.querySelector(".search-summary")?.setAttribute("role", "status")).observe(results, { childList: true });

// An excerpt shows a formula once, not as MathML, as TeX and as it is set.
const { htmlToText } = Search;
Search.htmlToText = (html, anchor) => {
  const page = new DOMParser().parseFromString(html, "text/html");
  for (const again of page.querySelectorAll(".katex-html, annotation")) again.remove();
  return htmlToText(page.documentElement.outerHTML, anchor);
};

// The index is a plain object: without this, "constructor" and "__proto__" would find what every object has.
const { setIndex } = Search;
Search.setIndex = (index) => {
  const { hasOwnProperty } = Object.prototype; // all that the search asks of it
  for (const words of [index.terms, index.titleterms]) Object.setPrototypeOf(words, Object.assign(Object.create(null), { hasOwnProperty }));
  setIndex(index);
};

// Two ways to spell it, one in the book.
const { performSearch } = Search;
Search.performSearch = (query) => performSearch(query.replace(/isation/gi, "ization"));
