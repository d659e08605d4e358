"""A module of tests that the package lacks."""

VALUE = 7
