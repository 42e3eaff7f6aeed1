"""Record what a real engine does on this machine. Optional: the book reads what data/measured already holds."""
