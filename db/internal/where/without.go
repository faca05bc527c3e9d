package where

// Without returns the filter for rows of which none has the attributes that has does not know: a condition on
// one of them passes no row, and NotEqual all.
func Without(e Expr, has func(name string) bool) Expr {
	switch e := e.(type) {
	case *Group:
		parts := make([]Expr, len(e.Parts()))
		for i, p := range e.Parts() {
			parts[i] = Without(p, has)
		}
		return group(e.Any, parts)
	case *Not:
		return Negate(Without(e.Of, has))
	case *Compare:
		if !has(e.Name) {
			return Every(e.Op == NotEqual)
		}
	}
	return e
}
