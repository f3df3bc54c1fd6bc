// SPDX-License-Identifier: MIT OR Apache-2.0

package cachalot

import (
	"fmt"
	"strconv"
)

// named is a number that has a name, which is its text in JSON.
type named interface {
	~int
	fmt.Stringer
}

// unknown is the String of a number that has no name.
const unknown = "unknown"

// nameOf is the name of a number, and the number itself where it has none.
func nameOf[T named](value T) ([]byte, error) {
	if name := value.String(); name != unknown {
		return []byte(name), nil
	}
	return strconv.AppendInt(nil, int64(value), 10), nil
}

// readName is the other way round. Names are those of the numbers from 0 on.
func readName[T named](value *T, text []byte) error {
	for each := T(0); each.String() != unknown; each++ {
		if each.String() == string(text) {
			*value = each
			return nil
		}
	}
	number, err := strconv.Atoi(string(text))
	if err != nil {
		return argumentError(fmt.Sprintf("%q is no %T", text, *value))
	}
	*value = T(number)
	return nil
}
