// Put an address into the bar and copy it; say which of the two has worked, and what the link leaves out.
export async function share(address, say, left = "") {
  history.replaceState(null, "", address);
  try {
    await navigator.clipboard.writeText(location.href);
    say(`The link is copied.${left}`);
  } catch { say(`This page may not copy: the link stands in the address bar.${left}`); }
}
