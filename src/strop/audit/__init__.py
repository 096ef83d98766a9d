"""Whether a domain's reward tells right from wrong, found out before anything is trained on it."""
