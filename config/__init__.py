"""What a run is: the pydantic schema of every option, with its bounds, and the TOML presets (the
paper's setting, the lab benches). This room imports nothing else of macontrol, so every other
room can depend on it.
"""
