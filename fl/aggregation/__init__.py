"""How what the silos make becomes one sum, and what is checked of it."""
