"""TOML in, typed values out. No torch, no ray."""
