"""The doctor: is this bench fit to run?"""
