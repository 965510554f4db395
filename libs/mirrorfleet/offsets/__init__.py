"""The offset map: translation both ways, packing, and what groups are given. Sans-IO."""
