// Leaves one text of every kind on the page. What has size, weight, color and all that is drawn behind it in common has
// its contrast in common, on other pages too, and axe needs seconds for each of a chapter's thousands of texts.
(() => {
  const FIELDS = 'input, select, textarea, button, label'; // axe passes over a disabled one: none stands for another
  const kept = new Set(document.querySelectorAll(FIELDS));

  function kinds() {
    const behind = new Map([[document.body, '']]);
    const found = new Map();
    for (const element of document.body.querySelectorAll('*')) {
      const style = getComputedStyle(element);
      const drawn = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.clipPath];
      const clear = drawn.join() === 'rgba(0, 0, 0, 0),none,1,none,none';
      behind.set(element, behind.get(element.parentElement) + (clear ? '' : `/${drawn}`));
      const text = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
      if (!(text || element.matches(FIELDS)) || !element.checkVisibility({ visibilityProperty: true })) continue;
      if (element.closest('math')) continue; // there for those who listen, and not drawn
      const kind = [
        element.tagName, style.color, style.fontSize, style.fontWeight, style.textDecorationLine, style.textShadow,
        getComputedStyle(element.parentElement).color, behind.get(element),
        (element.control ?? element).matches(':disabled'),
      ].join();
      if (!found.has(kind)) found.set(kind, element);
    }
    return found;
  }

  function keep() { // those of the mode the page is in
    const found = kinds();
    for (const element of found.values()) kept.add(element);
    return [...found.keys()];
  }

  window.kinds = {
    keep,
    prune() { // all but those that were kept; returns the kinds that went, for some style depends on a neighbor
      const before = keep();
      const needed = new Set();
      for (let element of kept) for (; element; element = element.parentElement) needed.add(element);
      for (const element of document.body.querySelectorAll('*')) if (!needed.has(element)) element.remove();
      const after = kinds();
      return before.filter((kind) => !after.has(kind));
    },
  };
})()
