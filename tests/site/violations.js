// What axe finds wrong on the page as it is now, by all its rules or by those on colors: rule → elements.
//
// Whether a text can be told from what is behind it takes axe longest, and is asked once of every kind of text: what has
// size, weight, color and all that is drawn behind it in common has its contrast in common.
async (onlyColors) => {
  const COLORS = ['color-contrast', 'link-in-text-block'];
  const FIELDS = 'input, select, textarea, button, label'; // axe passes over a disabled one: none stands for another

  function kindsOfText() {
    const behind = new Map([[document.body, '']]);
    const kinds = new Map();
    for (const element of document.body.querySelectorAll('*')) {
      const style = getComputedStyle(element);
      const drawn = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.clipPath, style.position];
      const plain = drawn.join() === 'rgba(0, 0, 0, 0),none,1,none,none,static';
      behind.set(element, behind.get(element.parentElement) + (plain ? '' : `/${drawn}`));
      const field = element.closest(FIELDS);
      const text = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
      if (!(text || field) || !element.checkVisibility({ visibilityProperty: true })) continue;
      const kind = field ? element : [
        element.tagName, style.color, style.fontSize, style.fontWeight, style.textDecorationLine, style.textShadow,
        getComputedStyle(element.parentElement).color, behind.get(element),
      ].join();
      if (!kinds.has(kind)) kinds.set(kind, element);
    }
    return [...kinds.values()];
  }

  // what is far from the window too
  for (const part of document.querySelectorAll('section')) part.style.contentVisibility = 'visible';
  const asked = { resultTypes: ['violations'] };
  const { violations } = await axe.run({ include: kindsOfText() }, { ...asked, runOnly: COLORS });
  if (!onlyColors) {
    const off = Object.fromEntries(COLORS.map((rule) => [rule, { enabled: false }]));
    violations.push(...(await axe.run({ ...asked, rules: off })).violations);
  }
  return Object.fromEntries(violations.map(({ id, nodes }) => [id, nodes.map((node) => node.html.slice(0, 200))]));
}
