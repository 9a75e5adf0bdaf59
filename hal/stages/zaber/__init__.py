"""Stages with the Zaber ASCII protocol."""
