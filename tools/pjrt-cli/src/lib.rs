//! This library is empty. The package has it so that its tests can depend on the package with the feature `full`.
