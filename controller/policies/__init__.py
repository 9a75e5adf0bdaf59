"""Policies: one package each; kernel, features and posterior behind them; the paper's theory."""
