// SPDX-License-Identifier: BSD-2-Clause
/* Malicious files and samples: no crash, bounded time, counted. */
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>

#include "stack/stack.h"
#include "stack/unwind.h"
#include "stack_sample.h"

static unsigned char *image;
static size_t image_size;

static int read_image(void **state)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	image_size = (size_t)st.st_size;
	image = malloc(image_size);
	assert_non_null(image);
	assert_int_equal(read(fd, image, image_size), image_size);
	close(fd);
	return 0;
}

static int free_image(void **state)
{
	free(image);
	return 0;
}

/* A file with these contents. */
static int file_of(const unsigned char *bytes, size_t size)
{
	int fd = memfd_create("file", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), size);
	return fd;
}

static const Elf64_Shdr *find_section(const unsigned char *elf, const char *name)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)elf;
	const Elf64_Shdr *sh = (const Elf64_Shdr *)(elf + eh->e_shoff);
	const char *names = (const char *)elf + sh[eh->e_shstrndx].sh_offset;

	for (int i = 0; i < eh->e_shnum; i++) {
		if (!strcmp(names + sh[i].sh_name, name))
			return &sh[i];
	}
	fail_msg("no %s", name);
	return NULL;
}

static struct reader *reader;
static struct place place;
static const Elf64_Shdr *text; /* the section */

static int set_up(void **state)
{
	text = find_section(image, ".text");
	return reader_new(&reader);
}

static int tear_down(void **state)
{
	reader_free(reader);
	return 0;
}

/* Opens this program under this number. */
static int open_image(uint32_t number)
{
	return reader_open(reader, number, file_of(image, image_size), -1, false);
}

static void good_file(uint32_t number)
{
	uint64_t entry = ((const Elf64_Ehdr *)image)->e_entry; /* other places may lie between functions */

	assert_int_equal(open_image(number), 0);
	assert_int_equal(reader_place(reader, number, text->sh_offset + entry - text->sh_addr, &place), 0);
	assert_true(place.row.known);
	assert_true(place.name[0]);
}

/* PLT stubs have no symbols; .init's symbol before them has no size. */
TEST_WITH(plt_has_no_name, set_up, tear_down)
{
	const Elf64_Shdr *plt = find_section(image, ".plt");

	assert_int_equal(open_image(0), 0);
	assert_int_equal(reader_place(reader, 0, plt->sh_offset + plt->sh_size / 2, &place), 0);
	assert_string_equal(place.name, "");
	assert_true(place.row.known);
}

/* Random changes in the parts that libdw reads: whatever comes of it, it is over soon, and intact files are still read. */
TEST_WITH(broken_files, set_up, tear_down)
{
	static const char *const parts[] = { ".eh_frame", ".eh_frame_hdr", ".symtab", ".strtab", ".dynsym", ".dynamic" };
	unsigned char *bytes = malloc(image_size);
	unsigned int ended = 0;

	assert_non_null(bytes);
	srandom(7);
	for (uint32_t i = 0; i < 150 && reader_generation(reader) < READER_REPLACED_MAX - 1; i++) {
		const Elf64_Shdr *part = find_section(image, parts[i % 6]);
		int err;

		memcpy(bytes, image, image_size);
		for (int k = 0; k < 1 << (i % 10); k++)
			bytes[part->sh_offset + (size_t)random() % part->sh_size] = (unsigned char)random();
		if (i % 7 == 0) /* the headers, too */
			bytes[random() % 64] ^= (unsigned char)random();
		if (i % 5 == 0) {
			Elf64_Ehdr *eh = (Elf64_Ehdr *)bytes;

			if (eh->e_shoff < image_size - 64 * 32)
				bytes[eh->e_shoff + (size_t)random() % (64 * 32)] ^= 0x80;
		}
		err = reader_open(reader, 1 + i, file_of(bytes, image_size), -1, false);
		for (int k = 0; !err && k < 30; k++)
			err = reader_place(reader, 1 + i, text->sh_offset + (size_t)random() % text->sh_size, &place);
		ended += err == -EPROTO;
	}
	assert_int_equal(ended, reader_generation(reader));
	print_message("# %u files ended the process that reads\n", ended);
	good_file(0);
	free(bytes);
}

/* A process that maps the file gets SIGBUS. */
static void shorten_while_read(uint32_t number)
{
	int fd = file_of(image, image_size);

	assert_int_equal(reader_open(reader, number, dup(fd), -1, false), 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	assert_int_equal(reader_place(reader, number, text->sh_offset, &place), -EPROTO);
	close(fd);
}

TEST_WITH(shortened_file, set_up, tear_down)
{
	shorten_while_read(3);
	assert_int_equal(reader_generation(reader), 1);
	assert_int_equal(reader_place(reader, 3, text->sh_offset, &place), -EBADF);
	good_file(4);
}

TEST_WITH(odd_files, set_up, tear_down)
{
	char link[READER_LINK_MAX];
	int fd;

	assert_int_equal(reader_open(reader, 0, file_of((const unsigned char *)"text", 4), -1, false), -ENOEXEC);
	assert_int_equal(reader_open(reader, 0, open("/dev/null", O_RDONLY), -1, false), -ENOEXEC);
	/* 1 TB of holes after it */
	fd = file_of(image, image_size);
	assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
	reader_open(reader, 1, fd, -1, false);
	/* junk in place of a file with debug information */
	assert_int_equal(reader_open(reader, 2, file_of(image, image_size), file_of((const unsigned char *)"text", 4), false), 0);
	reader_link(reader, link);
	assert_string_equal(link, "");
	/* found by a name that the file does not contain, it is not used */
	assert_int_equal(reader_open(reader, 2, file_of(image, image_size), file_of(image, image_size), true), 0);
	assert_int_equal(reader_place(reader, 2, text->sh_offset, &place), 0);
	assert_int_equal(reader_place(reader, 2, UINT64_MAX, &place), -ENXIO);
	assert_int_equal(reader_place(reader, 2, image_size + 4096, &place), -ENXIO);
	assert_int_equal(reader_place(reader, 7, 0, &place), -EBADF);
	good_file(3);
}

/* After this many replacements no file is read any more, and nothing else breaks. */
TEST_WITH(given_up, set_up, tear_down)
{
	for (uint32_t i = 0; i <= READER_REPLACED_MAX; i++)
		shorten_while_read(i);
	assert_int_equal(open_image(0), -EPROTO);
}

/* ---- samples ---- */

/* Registers and stacks full of junk, and of this process's own addresses. */
TEST(junk_samples)
{
	const struct stacks_config config = { .memory_max = 2 << 20 };
	struct rec_sample *r = calloc(1, REC_SENT_MAX);
	struct stacks_stats stats;
	struct stacks *s;
	uint64_t taken = 0;

	assert_non_null(r);
	assert_int_equal(stacks_new(&config, &s), 0);
	srandom(3);
	for (int i = 0; i < 3000; i++) {
		uint64_t *words = (uint64_t *)(r + 1);
		size_t n = (size_t)random() % (SAMPLE_STACK_MAX / 8), size;
		uint32_t id;

		memset(r, 0, sizeof(*r));
		r->h.tgid = i % 3 ? (uint32_t)getpid() : (uint32_t)random();
		r->kernel_n = (uint16_t)(random() % (SAMPLE_KERNEL_MAX + 1));
		r->python_n = (uint16_t)(random() % (SAMPLE_PYTHON_MAX + 1));
		r->stack_bytes = (uint32_t)(8 * n);
		r->task = (uint16_t)(random() % 2);
		size = REC_SAMPLE_SIZE(r->kernel_n, r->python_n, r->stack_bytes) + SAMPLE_TASK_SIZE(r);
		for (int k = 0; k < SAMPLE_REGS; k++)
			r->regs[k] = (uint64_t)random() << 32 ^ (uint64_t)random();
		if (i & 1) {
			r->regs[SAMPLE_REG_PC] = (uint64_t)(uintptr_t)junk_samples + (uint64_t)(random() % 4096);
			r->regs[SAMPLE_REG_SP] = (uint64_t)(uintptr_t)&config;
		}
		for (size_t k = 0; k < (size - sizeof(*r)) / 8; k++) {
			uint64_t near = i & 2 ? (uint64_t)(uintptr_t)read_image : (uint64_t)(uintptr_t)&config;

			words[k] = near + (uint64_t)(random() % 16384);
		}
		id = stacks_take(s, r, size);
		taken += id != STACK_NONE;
	}
	stacks_stats(s, &stats);
	assert_int_equal(stats.samples, 3000);
	assert_int_equal(stats.user, stats.complete + stats.cut + stats.broken);
	assert_int_equal(stats.malformed, 0);
	assert_int_equal(taken + stats.no_memory, 3000);
	stacks_free(s);
	free(r);
}

TEST(malformed_samples)
{
	const struct stacks_config config = {};
	struct rec_sample *r = calloc(1, REC_SENT_MAX);
	struct stacks_stats stats;
	struct stacks *s;

	assert_non_null(r);
	assert_int_equal(stacks_new(&config, &s), 0);
	assert_int_equal(stacks_take(s, r, sizeof(*r) - 8), STACK_NONE);
	r->kernel_n = SAMPLE_KERNEL_MAX + 1;
	assert_int_equal(stacks_take(s, r, REC_SENT_MAX), STACK_NONE);
	r->kernel_n = 0;
	r->python_n = UINT16_MAX;
	assert_int_equal(stacks_take(s, r, REC_SENT_MAX), STACK_NONE);
	r->python_n = 0;
	r->task = 2;
	assert_int_equal(stacks_take(s, r, REC_SENT_MAX), STACK_NONE);
	r->task = 1;
	assert_int_equal(stacks_take(s, r, sizeof(*r) + sizeof(struct python_task) - 8), STACK_NONE);
	r->task = 0;
	r->stack_bytes = UINT32_MAX;
	assert_int_equal(stacks_take(s, r, REC_SENT_MAX), STACK_NONE);
	r->stack_bytes = 16;
	assert_int_equal(stacks_take(s, r, sizeof(*r) + 8), STACK_NONE);
	/* a kernel thread in user space: nothing */
	r->flags = SAMPLE_F_NO_USER;
	r->stack_bytes = 0;
	assert_int_equal(stacks_take(s, r, sizeof(*r)), STACK_NONE);
	stacks_stats(s, &stats);
	assert_int_equal(stats.malformed, 7);
	assert_int_equal(stats.user, 0);
	stacks_free(s);
	free(r);
}

RUN_TESTS(read_image, free_image)
