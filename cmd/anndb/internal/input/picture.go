package input

import (
	"fmt"
	"image"

	"github.com/anndb/anndb/cmd/anndb/internal/command"

	_ "image/jpeg"

	// formats that image.Decode knows
	_ "image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/anndb/anndb/db"
)

// maxPicture bounds the pixels of a picture that is read: its header alone makes memory.
const maxPicture = 1 << 28

// isPicture reports whether a path names a picture.
func isPicture(path string) bool {
	return slices.Contains([]string{".png", ".jpg", ".jpeg"}, strings.ToLower(filepath.Ext(path)))
}

// readPicture reads a PNG or JPEG file as a row of a collection of square grey pictures: values
// from 0 to 255, line by line, each the mean of the part of the picture that it covers.
func readPicture(path string, info db.CollectionInfo, invert bool) ([]float32, error) {
	side := int(math.Round(math.Sqrt(float64(info.Dim))))
	if side*side != info.Dim {
		return nil, command.Usagef("%s: collection %q has %d dimensions, which are no square picture",
			path, info.Name, info.Dim)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head, _, err := image.DecodeConfig(f)
	if err == nil && head.Width > 0 && head.Height > maxPicture/head.Width {
		err = fmt.Errorf("%d x %d pixels are too many", head.Width, head.Height)
	}
	if err != nil {
		return nil, command.BadInput("picture %s: %w", path, err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		return nil, err
	}
	picture, _, err := image.Decode(f)
	if err != nil {
		return nil, command.BadInput("picture %s: %w", path, err)
	}
	out := greySquare(picture, side)
	if invert {
		for i, v := range out {
			out[i] = 255 - v
		}
	}
	return out, nil
}

// greySquare scales a picture to side times side grey values.
func greySquare(picture image.Image, side int) []float32 {
	b := picture.Bounds()
	out := make([]float32, 0, side*side)
	for y := range side {
		top, bottom := span(y, side, b.Dy())
		for x := range side {
			left, right := span(x, side, b.Dx())
			sum := 0.0
			for py := top; py < bottom; py++ {
				for px := left; px < right; px++ {
					sum += luminance(picture.At(b.Min.X+px, b.Min.Y+py).RGBA())
				}
			}
			out = append(out, float32(math.Round(sum/float64((bottom-top)*(right-left)))))
		}
	}
	return out
}

// span is the part of n pixels that cell i of so many covers, at least one pixel.
func span(i, cells, n int) (lo, hi int) {
	lo, hi = i*n/cells, (i+1)*n/cells
	lo = min(lo, n-1)
	return lo, max(hi, lo+1)
}

// luminance is the brightness, 0 to 255, of a colour of 16 bits a channel (ITU-R BT.601).
func luminance(r, g, b, _ uint32) float64 {
	return (0.299*float64(r) + 0.587*float64(g) + 0.114*float64(b)) / 257
}
