// The search says what it found where the eye sees it: those who listen hear it too.
const results = document.getElementById("search-results");
Documentation.TRANSLATIONS["Your search did not match any documents. Please make sure that all words are spelled correctly and that you've selected enough categories."] =
  "No page has all of these words. Check their spelling, or search for fewer.";
Documentation.TRANSLATIONS["Search finished, found ${resultCount} page(s) matching the search query."] = "Pages found: ${resultCount}.";
new MutationObserver(() => results.querySelector(".search-summary")?.setAttribute("role", "status")).observe(results, { childList: true });
