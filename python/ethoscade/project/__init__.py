"""Projects: a build around the emitted C for a board, and the link by which a host drives the network there."""
