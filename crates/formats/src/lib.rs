//! Frames, messages and the wire formats they are written in. Pure functions, no IO.
