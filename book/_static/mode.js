// Before the first paint: the reader's choice of light or dark, if one was made.
try {
  const mode = localStorage.getItem("mode");
  if (mode) document.documentElement.dataset.mode = mode;
} catch { /* storage is closed: the system's choice holds */ }
