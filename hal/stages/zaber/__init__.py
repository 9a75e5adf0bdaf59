"""Stages that speak the Zaber ASCII protocol."""
