package db

func childHold(string) error  { return nil }
func childLimit(string) error { return nil }
