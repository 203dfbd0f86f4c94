// Programs for test_stepping.py: "//== name", what stands at module scope, "//--", what an invocation does with
// index (0 to 6) and v, a word of which every bit counts. x, y and params are the copy operator's.

//== integers wrap
//--
let a = i32(v);
y[index] = u32(a * a * 65537i - 2147483647i) + v * 4000000000u - 3000000000u;

//== division
//--
let a = bitcast<i32>(v);
y[index] = u32(a / -7i) ^ u32(a % 10i) ^ (v / 10u) ^ u32(a / (i32(index) - 3i)) ^ (v % (index - 2u));

//== shifts
//--
y[index] = (v >> ((index * 9u) & 31u)) ^ (v << (index + 30u)) ^ u32(bitcast<i32>(v) >> 3u);

//== names
const K = 3u;
const LATER = EARLIER * 2u;
const EARLIER: u32 = 21u;
fn k(a: u32, b: u32) -> u32 {
  return K * a + b * LATER;
}
fn placed(id: u32, index: u32) -> u32 {
  return id * 3u + index;
}
//--
let K = 50u;
let a = v & 15u;
let b = v >> 28u;
let block = 1u;
let workgroup = 2u;
y[index] = k(b, a) -1u + K * block + workgroup + placed(index, id.x + 9u);

//== scopes
//--
var i = 5u;
var s = 0u;
for (var i = 0u; i < 3u; i++) {
  let s = 7u;
  y[index] = s;
}
{
  var i = 8u;
  i += 1u;
  s += i;
}
y[index] = s * 100u + i;

//== switch
fn f(a: u32) -> u32 {
  var r = 0u;
  switch (a % 4u) {
    case 0u: {
      r += 1u;
      r *= 5u;
      r += 2u;
      r ^= 8u;
    }
    case 1u, 2u: {
      r = 9u;
      break;
    }
    default: {
      for (var i = 0u; i < 9u; i++) {
        if (i == 2u) {
          continue;
        }
        if (i > 5u) {
          break;
        }
        if (r > 1000u) {
          return r;
        }
        r += i * a;
      }
    }
  }
  return r;
}
//--
y[index] = f(v) + f(index) * 1000u;

//== swizzles
//--
var q = vec4<u32>(v, v >> 3u, index, 7u);
q.z += 2u;
q[index & 3u] ^= 5u;
let d = (q.yzw).zx.y + (q.wzyx * 3u)[1];
let c = select(q, vec4<u32>(1u), q > vec4<u32>(6u));
y[index] = d + c.x + c.w * 10u + select(0u, 100u, any(q.xy == vec2<u32>(5u, 7u)) || all(c < q));

//== values and pointers
struct Two {
  a: u32,
  b: array<vec3<u32>, 2>,
  c: i32,
}
fn bump(p: ptr<function, Two>, by: u32) {
  (*p).b[1].y += by;
  (*p).c -= 2i;
}
fn sum_of(two: Two) -> u32 {
  return two.b[1].y + u32(two.c) + two.a;
}
//--
var t = Two(v, array<vec3<u32>, 2>(), 4);
let kept = t;
bump(&t, index);
var u = t;
u.a = 1u;
t.b[1] = vec3<u32>(9u);
y[index] = sum_of(kept) + 3u * sum_of(t) + 7u * sum_of(u);

//== bits
//--
let s = bitcast<i32>(v);
var r = countLeadingZeros(v >> index) + countOneBits(v) * 3u + u32(firstLeadingBit(s)) * 5u + firstTrailingBit(v);
r = r * 31u + u32(extractBits(s, index * 3u, 7u));
r = r * 31u + (extractBits(v, 3u, index) ^ insertBits(v, 5u, 9u, index) ^ reverseBits(v));
r = r * 31u + u32(abs(s)) + u32(min(s, -5i) + max(s, 9i) + clamp(s, -9i, 9i)) + countTrailingZeros(v << index);
y[index] = r + arrayLength(&x);

//== floats
//--
let f = f32(v >> 9u) * 0.125 - 1000.5;
let whole = bitcast<u32>(round(f)) ^ u32(i32(floor(f))) ^ bitcast<u32>(ceil(f)) ^ bitcast<u32>(trunc(f));
y[index] = bitcast<u32>(f * f) ^ whole ^ bitcast<u32>(-abs(f)) ^ bitcast<u32>(clamp(f, -2.5, 3.0));

//== packed
//--
let half = unpack2x16float(v & 0x3fffbfffu);
y[index] = u32(dot4I8Packed(v, v * 3u)) + dot4U8Packed(v, ~v) + unpack4xU8(v).y + u32(unpack4xI8(v).z);
y[index] ^= pack4xU8(vec4<u32>(v, 1u, v >> 8u, index)) ^ pack4xI8(vec4<i32>(-1i, i32(v), 5i, -128i));
y[index] += bitcast<u32>(half.x) * 3u + bitcast<u32>(half.y);

//== short circuits
//--
y[index] = 0u;
if (index < 3u && x[index + 4u] > 0u) {
  y[index] = 1u;
} else if (index > 2u || x[99u] == 1u) {
  y[index] = 2u;
}

//== calls in places
fn next(a: u32) -> u32 {
  let b = twice(a);
  return b + 1u;
}
fn twice(a: u32) -> u32 {
  return a * 2u;
}
//--
var q = array<u32, 8>();
for (var i = twice(0u); next(i) < 9u; i = next(i)) {
  q[twice(i) & 7u] = next(twice(i)) + twice(i);
}
y[index] = q[index] + twice(next(index)) * 100u;

//== workgroup memory
var<workgroup> tile: array<u32, 64>;
var<workgroup> sum: atomic<u32>;
var<private> turn = 3u;
//--
tile[id.x] = v + turn;
if (index < params.count) {
  y[index] = turn;
}
atomicAdd(&sum, v);
workgroupBarrier();
let other = tile[63u - id.x];
workgroupBarrier();
tile[id.x] = other * 2u;
turn += 1u;
workgroupBarrier();
if (index < params.count) {
  y[index] = tile[(id.x + 1u) & 63u] + atomicLoad(&sum) * turn;
}
