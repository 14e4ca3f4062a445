package main

// The command speaks to container engines, so every sweep and stop by it can.
import _ "github.com/custody-project/custody/container"
