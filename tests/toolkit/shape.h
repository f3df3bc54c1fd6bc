// SPDX-License-Identifier: MIT OR Apache-2.0
// Whether a declaration of ours is the same to a caller as one of a toolkit's header: as many
// parameters, each a number of the same size and sign, or a pointer to what is the same again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cachalot_test {

// Struct of ours and of theirs, handles included, that are one and the same.
template <class Ours, class Theirs>
inline constexpr bool kAreOne = false;

template <class Ours, class Theirs>
struct Shape;

template <class Ours, class Theirs>
constexpr bool same_shape() {
  return Shape<Ours, Theirs>::kIsSame;
}

template <class Type>
inline constexpr bool kIsNumber = std::is_integral_v<Type> || std::is_enum_v<Type>;

template <class Ours, class Theirs>
struct Shape {
  // Where they have an enumeration, the sign is the compiler's choice.
  static constexpr bool is_same_number() {
    if constexpr (kIsNumber<Ours> && kIsNumber<Theirs>) {
      return sizeof(Ours) == sizeof(Theirs) &&
             (std::is_enum_v<Theirs> || std::is_signed_v<Ours> == std::is_signed_v<Theirs>);
    } else {
      return false;
    }
  }
  static constexpr bool kIsSame =
      std::is_same_v<Ours, Theirs> || is_same_number() || kAreOne<Ours, Theirs>;
};

template <class Ours, class Theirs>
struct Shape<Ours*, Theirs*> {
  static constexpr bool kIsSame =
      std::is_const_v<Ours> == std::is_const_v<Theirs> &&
      same_shape<std::remove_const_t<Ours>, std::remove_const_t<Theirs>>();
};

template <class Ours, class... OurParameters, class Theirs, class... TheirParameters>
struct Shape<Ours(OurParameters...), Theirs(TheirParameters...)> {
  static constexpr bool compare() {
    if constexpr (sizeof...(OurParameters) == sizeof...(TheirParameters)) {
      return same_shape<Ours, Theirs>() && (same_shape<OurParameters, TheirParameters>() && ...);
    } else {
      return false;
    }
  }
  static constexpr bool kIsSame = compare();
};

// What it must find.
enum class SomeEnumeration : int32_t {};
static_assert(same_shape<int, SomeEnumeration>());
static_assert(same_shape<int(unsigned long*), SomeEnumeration(uint64_t*)>());
static_assert(!same_shape<int, unsigned>());
static_assert(!same_shape<int, long>());
static_assert(!same_shape<int, int*>());
static_assert(!same_shape<const char*, char*>());
static_assert(!same_shape<int(void**), int(void*)>());
static_assert(!same_shape<int(int, int), int(int)>());
static_assert(!same_shape<int(long), int(int)>());
static_assert(!same_shape<long(int), int(int)>());
static_assert(!same_shape<int(struct One*), int(struct Other*)>());

}  // namespace cachalot_test

// In the namespace above.
#define ARE_ONE(ours, theirs) \
  template <>                 \
  inline constexpr bool kAreOne<ours, theirs> = true

#define SAME_SIZE(ours, theirs) static_assert(sizeof(ours) == sizeof(theirs))
#define SAME_FIELD(ours, our_field, theirs, their_field)                      \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field) && \
                sizeof(ours::our_field) == sizeof(theirs::their_field))
