"""What a config must satisfy beyond its types: no contradictions, no settings without effect."""
