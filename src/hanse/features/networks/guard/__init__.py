"""The guard of a node: nftables rules that keep networks apart, whatever policies say."""
