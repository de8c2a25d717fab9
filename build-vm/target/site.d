build-vm/target/site.o: src/target/site.c src/target/site.h \
 src/target/elf.h src/probe.h src/record.h
src/target/site.h:
src/target/elf.h:
src/probe.h:
src/record.h:
