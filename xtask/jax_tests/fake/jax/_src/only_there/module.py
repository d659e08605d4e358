"""A module of a package that only the checkout has."""

VALUE = 8
