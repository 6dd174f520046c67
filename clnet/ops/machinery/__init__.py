"""How an op is declared, asked of its arguments, and run; no op is declared here."""
