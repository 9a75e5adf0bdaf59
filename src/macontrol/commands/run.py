"""Not written yet."""

import argparse

SUMMARY = "not written yet"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--backend")


def main(arguments: argparse.Namespace) -> int:
    return 1
