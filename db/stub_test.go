package db

func childHold(string) error  { return nil }
func childFlips(string) error { return nil }
func childLimit(string) error { return nil }
