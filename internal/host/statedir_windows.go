package host

import "os"

// UserStateDir returns %LocalAppData%.
func UserStateDir() (string, error) { return os.UserCacheDir() }
