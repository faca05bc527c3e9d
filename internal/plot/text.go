package plot

import (
	"encoding/xml"
	"strings"
	"unicode"
)

// escape returns text as XML reads it.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder cannot fail
	return b.String()
}

// textWidth estimates the pixels of a text in a wide sans-serif font.
func textWidth(text string, size float64) (width float64) {
	for _, r := range text {
		width += runeWidth(r) * size
	}
	return width
}

// runeWidth estimates the width of a letter as a share of the size.
func runeWidth(r rune) float64 {
	switch {
	case strings.ContainsRune("ijlI.,:;'|!· ", r):
		return 0.33
	case strings.ContainsRune("frt()[]{}-/\"", r):
		return 0.43
	case strings.ContainsRune("mwMW@%…", r) || unicode.IsControl(r):
		return 0.98
	case unicode.Is(unicode.Mn, r):
		return 0
	case r >= 0x1100 &&
		unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana, unicode.So):
		return 1
	case unicode.IsUpper(r) || strings.ContainsRune("+<>=~", r):
		return 0.76
	}
	return 0.62
}

// shorten cuts a text that is wider than so many pixels.
func shorten(text string, size, most float64) string {
	if textWidth(text, size) <= most {
		return text
	}
	w := textWidth("…", size)
	for i, r := range text {
		if w += runeWidth(r) * size; w > most {
			return strings.TrimRight(text[:i], " ") + "…"
		}
	}
	return text
}
